# One target per folder; flags live on targets through tacit_flags.
file(RELATIVE_PATH tacit_up ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/)   # as ccache writes paths
add_library(tacit_flags INTERFACE)
target_compile_options(tacit_flags INTERFACE
  -march=${TACIT_MARCH}
  -ffp-contract=off                    # results must not depend on the compiler's mood
  -fno-math-errno -fno-trapping-math
  $<$<CXX_COMPILER_ID:Clang>:-fmax-type-align=8>   # clang passes over the aligned(8) of core/lanes.h's aliases
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${tacit_up}=   # messages name src/core/x.h, wherever the clone lies
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor $<$<BOOL:${TACIT_WERROR}>:-Werror>)
target_include_directories(tacit_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Eigen's alignment is ABI: pinned, so that units built with other -march agree.
target_compile_definitions(tacit_flags INTERFACE EIGEN_MAX_ALIGN_BYTES=32 EIGEN_NO_IO)
if(TACIT_SANITIZE)
  target_compile_options(tacit_flags INTERFACE -fsanitize=${TACIT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tacit_flags INTERFACE -fsanitize=${TACIT_SANITIZE})
endif()

# tacit_library(NAME SOURCES... [LINK targets...]): the library of one folder.
function(tacit_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  if(A_SOURCES)
    add_library(${name} STATIC ${A_SOURCES})
    target_link_libraries(${name} PUBLIC tacit_flags ${A_LINK} PRIVATE ${A_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE tacit_flags ${A_LINK})
  endif()
endfunction()

# tacit_test(NAME LINK targets... [ENV VAR=value...] [LABELS label...] [TIMEOUT seconds]):
# builds NAME.cc beside it as a GoogleTest program. A name that ends in _slow_test is labelled slow
# and left to `make test-all`. LABELS adds labels: e2e for a test that starts processes, threads for one
# that runs several threads, which the target thread_tests builds for the thread sanitizer. Tests of the
# folders that touch memory by hand are labelled memory, and memory_tests builds them: what .ci/run has time
# to run under the address sanitizer.
# Skipped cases are counted by scripts/run-tests from the program's own report: ctest's
# SKIP_REGULAR_EXPRESSION would hide a failure in a program that also skips something.
function(tacit_test name)
  if(NOT TACIT_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "TIMEOUT" "LINK;ENV;LABELS" ${ARGN})
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE tacit_flags ${A_LINK} GTest::gtest GTest::gtest_main rapidcheck)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 600)
  endif()
  if(name MATCHES "_slow_test$")
    list(APPEND A_LABELS slow)
    math(EXPR A_TIMEOUT "${A_TIMEOUT} * 6")
  else()
    list(APPEND A_LABELS fast)
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(folder MATCHES "^(core|data|models|compress|privacy|wire|runtime)$" AND NOT name MATCHES "_slow_test$")
    list(APPEND A_LABELS memory)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${A_TIMEOUT} ENVIRONMENT "${A_ENV}" LABELS "${A_LABELS}")
  foreach(kind IN ITEMS threads memory)
    string(REGEX REPLACE "s$" "" target ${kind})
    set(target ${target}_tests)
    if(${kind} IN_LIST A_LABELS)
      if(NOT TARGET ${target})
        add_custom_target(${target})
      endif()
      add_dependencies(${target} ${name})
    endif()
  endforeach()
endfunction()

# tacit_fuzz(NAME LINK targets...): builds NAME.cc beside it, which defines LLVMFuzzerTestOneInput, as a
# libFuzzer program; with the preset fuzz only. `make test-all` runs every program named *_fuzz. Elsewhere
# the inputs kept in corpus/NAME are replayed through it as the fast test replay.NAME.
function(tacit_fuzz name)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  if(NOT TACIT_FUZZ)
    if(TACIT_TESTS AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
      add_executable(${name}_replay ${name}.cc replay.cc)
      target_link_libraries(${name}_replay PRIVATE tacit_flags ${A_LINK})
      add_test(NAME replay.${name} COMMAND ${name}_replay ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
      set_tests_properties(replay.${name} PROPERTIES LABELS fast TIMEOUT 120)
    endif()
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${name}.cc)
  target_link_libraries(${name} PRIVATE tacit_flags ${A_LINK})
  target_compile_definitions(${name} PRIVATE TACIT_FUZZING)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzz)
    add_custom_target(fuzz)
  endif()
  add_dependencies(fuzz ${name})
endfunction()
