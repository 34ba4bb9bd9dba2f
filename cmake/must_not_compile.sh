#!/usr/bin/env bash
# must_not_compile.sh FILE.cc COMPILER FLAGS...: see MustNotCompile.cmake.
set -u
export LC_ALL=C        # plain quotes in the compiler's messages
file=$1 compiler=$2
shift 2
flags=()
for flag in "$@"; do
  [ "$flag" = -isystem/usr/include ] || flags+=("$flag")     # already searched; naming it breaks include_next
done
expect=$(sed -n 's|^// EXPECT: ||p' "$file")
if [ -z "$expect" ] || ! grep -q MUST_FAIL "$file"; then
  echo "$file: needs a line '// EXPECT: <regex>' and an '#if MUST_FAIL'"
  exit 1
fi
if ! output=$("$compiler" "${flags[@]}" -DMUST_FAIL=0 -fsyntax-only "$file" 2>&1); then
  printf '%s\n%s: must compile without MUST_FAIL\n' "$output" "$file"
  exit 1
fi
if output=$("$compiler" "${flags[@]}" -DMUST_FAIL=1 -fsyntax-only "$file" 2>&1); then
  echo "$file: compiles with MUST_FAIL: the types no longer refuse this"
  exit 1
fi
if ! grep -qE -- "$expect" <<<"$output"; then
  printf '%s\n%s: refused, but without the expected message: %s\n' "$output" "$file" "$expect"
  exit 1
fi
grep -E -m 1 -- "$expect" <<<"$output"
