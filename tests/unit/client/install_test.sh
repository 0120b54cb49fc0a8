#!/bin/sh
# Proves that what is installed is enough: the example builds and runs against it with CMake (shared and static) and
# with pkg-config, larder.h is clean C99 and C++, and the libraries show no name but the public ones.
# usage: install_test.sh CMAKE BUILD_DIR SOURCE_DIR CC LIBDIR FLAGS
set -eu
cmake=$1 build=$2 source=$3 cc=$4 libdir=$5 flags=$6

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
prefix=$tmp/prefix

say() { printf '== %s\n' "$*"; }

run_help() {
    "$@" --help >"$tmp/help"
    grep -q '^usage: train DATASET' "$tmp/help"
}

say "install"
"$cmake" --install "$build" --prefix "$prefix" --component larder-client >"$tmp/log"
test -f "$prefix/include/larder/larder.h"
test -f "$prefix/include/larder/larder_err.h"

say "find_package(larder)"
"$cmake" -S "$source/client/examples" -B "$tmp/example" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="$flags -Wall -Wextra -Werror" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
"$cmake" --build "$tmp/example" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
run_help "$tmp/example/train"
run_help "$tmp/example/train_static"

say "a daemon that is not there is named"
if "$tmp/example/train" data/set --socket "$tmp/no.sock" 2>"$tmp/err"; then
    echo "the example succeeded without a daemon"
    exit 1
fi
grep -q "no daemon answers at $tmp/no.sock" "$tmp/err"

say "pkg-config"
if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046,SC2086 # words are meant
    "$cc" $flags "$source/client/examples/train.c" -o "$tmp/train" $(pkg-config --cflags --libs larder) \
        "-Wl,-rpath,$prefix/$libdir"
    run_help "$tmp/train"
else
    echo "no pkg-config here: left out"
fi

say "the writer of docs/reference/data.md"
sed -n '/^```c$/,/^```$/p' "$source/docs/reference/data.md" | sed '/^```/d' >"$tmp/write.c"
# shellcheck disable=SC2086 # words are meant
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror $flags -I"$prefix/include" "$tmp/write.c" -o "$tmp/write" \
    -L"$prefix/$libdir" -llarder "-Wl,-rpath,$prefix/$libdir"
"$tmp/write" "$tmp/mine.store"
test "$(tar tf "$tmp/mine.store.log/000000-000000000000.tar" | wc -l)" -eq 201

say "the header alone"
cat >"$tmp/header.c" <<'EOF'
#include <larder/larder.h>
int main(void) { struct larder_options o; larder_options_init(&o); return (int)o.rank; }
EOF
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror -I"$prefix/include" -c "$tmp/header.c" -o "$tmp/header.o"
if command -v g++ >/dev/null; then
    sed 's/(void)/()/' "$tmp/header.c" >"$tmp/header.cpp"
    g++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$prefix/include" -c "$tmp/header.cpp" -o "$tmp/header.o"
else
    echo "no g++ here: left out"
fi

say "exported names"
if [ -z "$flags" ] && command -v nm >/dev/null; then
    nm -D --defined-only "$prefix/$libdir/liblarder.so" | awk 'NF == 3 { print $3 }' >"$tmp/names"
    nm -g --defined-only "$prefix/$libdir/liblarder.a" | awk 'NF == 3 { print $3 }' >>"$tmp/names"
    grep -q '^larder_open$' "$tmp/names"
    if grep -v '^larder_' "$tmp/names"; then
        echo "these names are no part of the public interface"
        exit 1
    fi
fi
say "all well"
