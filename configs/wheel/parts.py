"""The libraries in the wheel: where each comes from, its licence, and how it is built.

A library under a permissive licence is linked into what uses it. One under the LGPL is a shared library of its own,
which whoever has the wheel may replace by another build of it. Nothing is under the GPL.
"""

from collections import namedtuple

# source: the name of Debian's source package. licence: an SPDX expression. texts: the files that have its words.
# shared: the shared libraries, which go into the wheel; empty: it is linked into what uses it. how: one of the ways in
# `libraries`. options: what that way is told besides. needs: the sources that must have been built before.
# edits: (file, what stands there, what is to stand there) of the source; a file that is not there is made. x86: what
# the way is told besides for x86-64.
Part = namedtuple("Part", "source licence texts shared how options needs edits x86", defaults=[(), (), ()])

_STATIC = ["-DBUILD_SHARED_LIBS=OFF"]

# libyaml's CMake files tell pkg-config nothing; its configure script would, and is not in the archive.
_YAML_PC = """set(prefix ${CMAKE_INSTALL_PREFIX})
set(exec_prefix ${prefix})
set(includedir ${prefix}/include)
set(libdir ${prefix}/lib)
set(PACKAGE_VERSION ${YAML_VERSION_STRING})
configure_file(yaml-0.1.pc.in yaml-0.1.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/yaml-0.1.pc DESTINATION lib/pkgconfig)
"""

# On Arm the compiler computes long doubles with routines of its own. They come in one object file with its expf and
# others, which would then be taken instead of the C library's, and give other bits. This is the one place with such
# numbers.
_NO_LONG_DOUBLE = ("libtiff/tif_aux.c", "long double", "double")

PARTS = [  # what takes longest begins first
    Part("gmp", "LGPL-3.0-or-later", ["COPYING.LESSERv3", "COPYINGv3"], ["libgmp.so.10"], "shared_configure",
         [], [], [("doc/Makefile.in", "", "all install:\n")],  # Debian leaves the pages out
         ["--enable-fat"]),
    Part("nettle", "LGPL-3.0-or-later", ["COPYING.LESSERv3", "COPYINGv3"], ["libnettle.so.8", "libhogweed.so.6"],
         "shared_configure", ["--disable-documentation", "--disable-openssl", "--enable-fat"], ["gmp"]),
    Part("gnutls28", "LGPL-2.1-or-later", ["doc/COPYING.LESSER"], ["libgnutls.so.30"], "shared_configure",
         ["--with-included-unistring", "--with-included-libtasn1", "--without-p11-kit", "--without-idn",
          "--disable-doc", "--disable-tools", "--disable-tests", "--disable-cxx", "--disable-guile",
          "--disable-libdane", "--without-tpm", "--without-tpm2", "--without-zstd", "--without-brotli",
          "--without-zlib", "--disable-nls",
          "--with-default-trust-store-file=/etc/ssl/certs/ca-certificates.crt"], ["nettle"]),
    Part("zlib", "Zlib", ["LICENSE"], [], "plain_configure", ["--static"]),
    Part("libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib", ["LICENSE.md", "README.ijg", "simd/nasm/jsimdext.inc"], [],
         "cmake", ["-DENABLE_SHARED=OFF", "-DWITH_TURBOJPEG=OFF", "-DREQUIRE_SIMD=ON"]),
    Part("libwebp", "BSD-3-Clause", ["COPYING", "PATENTS"], [], "configure",
         ["--disable-gl", "--disable-sdl", "--disable-png", "--disable-jpeg", "--disable-tiff", "--disable-gif",
          "--enable-libwebpmux", "--enable-libwebpdemux"]),
    Part("libpng1.6", "libpng-2.0", ["LICENSE"], [], "cmake",
         ["-DPNG_SHARED=OFF", "-DPNG_TESTS=OFF", "-DPNG_EXECUTABLES=OFF"], ["zlib"]),
    Part("libdeflate", "MIT", ["COPYING"], [], "plain_make", []),
    Part("xz-utils", "LicenseRef-Public-Domain", ["COPYING"], [], "configure",
         ["--disable-xz", "--disable-xzdec", "--disable-lzmadec", "--disable-lzmainfo", "--disable-lzma-links",
          "--disable-scripts", "--disable-doc", "--disable-nls"]),
    Part("libzstd", "BSD-3-Clause", ["LICENSE"], [], "plain_make", ["-C", "lib"]),
    Part("tiff", "libtiff", ["LICENSE.md"], [], "cmake",
         [*_STATIC, "-Dtiff-tools=OFF", "-Dtiff-tests=OFF", "-Dtiff-contrib=OFF", "-Dtiff-docs=OFF", "-Dcxx=OFF",
          "-Djbig=OFF", "-Dlerc=OFF", "-Dlibdeflate=ON", "-Dlzma=ON", "-Dzstd=ON", "-Dwebp=OFF", "-Djpeg=ON",
          *(f"-DCMAKE_REQUIRE_FIND_PACKAGE_{name}=ON" for name in ("ZLIB", "Deflate", "JPEG", "LibLZMA", "ZSTD"))],
         ["zlib", "libjpeg-turbo", "libdeflate", "xz-utils", "libzstd"], [_NO_LONG_DOUBLE]),
    Part("libyaml", "MIT", ["License"], [], "cmake", [*_STATIC, "-DBUILD_TESTING=OFF"], [],
         [("CMakeLists.txt", "include(CTest)", _YAML_PC + "include(CTest)")]),
    Part("jansson", "MIT", ["LICENSE"], [], "cmake",
         ["-DJANSSON_BUILD_SHARED_LIBS=OFF", "-DJANSSON_BUILD_DOCS=OFF", "-DJANSSON_EXAMPLES=OFF",
          "-DJANSSON_WITHOUT_TESTS=ON"]),
    Part("xxhash", "BSD-2-Clause", ["LICENSE"], [], "plain_make", []),
    Part("croaring", "Apache-2.0", ["LICENSE"], [], "cmake",
         [*_STATIC, "-DENABLE_ROARING_TESTS=OFF", "-DROARING_DISABLE_NATIVE=ON",
          "-DROARING_BUILD_STATIC=ON"]),
    Part("nng", "MIT", ["LICENSE.txt"], [], "cmake", [*_STATIC, "-DNNG_TESTS=OFF", "-DNNG_TOOLS=OFF"]),
    Part("libmicrohttpd", "LGPL-2.1-or-later", ["COPYING"], ["libmicrohttpd.so.12"], "shared_configure",
         ["--enable-https", "--disable-doc", "--disable-examples", "--disable-curl", "--disable-nls"],
         ["gnutls28"]),
    Part("curl", "curl", ["COPYING"], [], "configure",
         ["--with-gnutls", "--without-libpsl", "--without-zstd", "--without-brotli", "--without-nghttp2",
          "--without-libidn2", "--without-librtmp", "--without-libssh2", "--without-zlib", "--disable-ldap",
          "--disable-ldaps", "--disable-rtsp", "--disable-dict", "--disable-telnet", "--disable-tftp", "--disable-pop3",
          "--disable-imap", "--disable-smb", "--disable-smtp", "--disable-gopher", "--disable-mqtt", "--disable-ftp",
          "--disable-file", "--disable-manual", "--disable-ntlm", "--enable-threaded-resolver",
          "--with-ca-bundle=/etc/ssl/certs/ca-certificates.crt"], ["gnutls28"]),
]
