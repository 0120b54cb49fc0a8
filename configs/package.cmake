# What a package of the whole of Larder holds besides the programs and the C library, and how CPack makes it:
#   cmake -S . -B build-deb -DLARDER_PACKAGE=ON -DLARDER_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
#         -DCMAKE_INSTALL_PREFIX=/usr
#   cmake --build build-deb && (cd build-deb && cpack -G DEB)
# SOURCE_DATE_EPOCH makes two packages of one tree the same, byte by byte.
set(configs ${PROJECT_SOURCE_DIR}/configs)
set(LARDER_CONTACT "The Larder authors <larder@localhost>" CACHE STRING "Whom a package names as its maintainer")
# The package has a configuration file, and the unit reads it.
file(READ ${configs}/larderd.service unit)
string(REPLACE "ExecStart=/usr/bin/larderd\n# ExecStart=" "ExecStart=" unit "${unit}")
file(WRITE ${CMAKE_BINARY_DIR}/larderd.service "${unit}")
install(FILES ${CMAKE_BINARY_DIR}/larderd.service ${configs}/larderd.socket DESTINATION lib/systemd/system)
install(FILES ${configs}/larderd-user.service DESTINATION lib/systemd/user RENAME larderd.service)
install(FILES ${configs}/larder.sysusers DESTINATION lib/sysusers.d RENAME larder.conf)
install(FILES ${configs}/larder-minimal.yaml DESTINATION /etc/larder RENAME larder.yaml)
install(FILES ${configs}/larder.yaml ${configs}/prometheus.yml ${configs}/prometheus-alerts.yml ${configs}/grafana.json
              ${configs}/compose.yaml
        DESTINATION share/doc/larder/examples)
install(DIRECTORY ${configs}/kubernetes DESTINATION share/doc/larder/examples)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/examples/ DESTINATION share/doc/larder/examples/c)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/python/examples/ DESTINATION share/doc/larder/examples/python
        FILES_MATCHING PATTERN "*.py" PATTERN "*.sh" PATTERN "__pycache__" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION share/doc/larder)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/larder FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES ${configs}/debian/copyright DESTINATION share/doc/larder)
install(FILES ${configs}/debian/lintian-overrides DESTINATION share/lintian/overrides RENAME larder)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/python/larder DESTINATION lib/python3/dist-packages
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

# Debian wants a changelog and man pages compressed, without times in them.
set(changelog ${CMAKE_BINARY_DIR}/changelog.gz)
set(debian_changelog ${CMAKE_BINARY_DIR}/changelog.Debian.gz)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${CMAKE_BINARY_DIR}/changelog.Debian
     "larder (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n"
     " -- ${LARDER_CONTACT}  ${date}\n")
add_custom_command(OUTPUT ${changelog} ${debian_changelog}
    COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGES.md > ${changelog}
    COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/changelog.Debian > ${debian_changelog}
    DEPENDS ${PROJECT_SOURCE_DIR}/CHANGES.md)
add_custom_target(changelogs ALL DEPENDS ${changelog} ${debian_changelog})
install(FILES ${changelog} ${debian_changelog} DESTINATION share/doc/larder)
install(CODE "file(GLOB_RECURSE pages \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/*.[18]\")
foreach(page \${pages})
    execute_process(COMMAND gzip -9nf \${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()" ALL_COMPONENTS)

set(CPACK_PACKAGE_NAME larder)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${LARDER_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "prepares training data once for many training jobs
larderd loads, decodes and augments images once, and gives the result to all
training jobs of a machine through shared memory. This package has the daemon,
the command line tool, the C library with its headers and the Python package.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3 (>= 3.9), python3-numpy")
set(loaded ${LARDER_LOADED})
while(loaded) # no program is linked with these, so dpkg-shlibdeps does not see them
    list(POP_FRONT loaded library least)
    file(REAL_PATH ${library} library)
    execute_process(COMMAND dpkg-query -S ${library} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "^[^:]+" package "${said}")
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", ${package} (>= ${least})")
endwhile()
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${configs}/debian/conffiles ${configs}/debian/postinst ${configs}/debian/prerm
    ${configs}/debian/postrm)
if(CMAKE_VERSION VERSION_LESS 4.0) # later ones write the trigger for a library themselves
    list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${configs}/debian/triggers)
endif()
include(CPack)
