# tacit_must_not_compile(FILE.cc... LINK targets...): each file is one claim about what the types
# refuse, run as the test must_not_compile.<name>. The file is compiled twice at test time, with the
# includes and flags of the targets: as it is, it must compile; with -DMUST_FAIL=1 it must fail, and
# with the message its `// EXPECT: <extended regex>` line states.
function(tacit_must_not_compile)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  set(includes "")
  set(definitions "")
  foreach(target tacit_flags ${A_LINK})
    list(APPEND includes $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
    list(APPEND definitions $<TARGET_PROPERTY:${target},INTERFACE_COMPILE_DEFINITIONS>)
  endforeach()
  foreach(file ${A_UNPARSED_ARGUMENTS})
    cmake_path(GET file STEM name)
    add_test(NAME must_not_compile.${name}
      COMMAND ${PROJECT_SOURCE_DIR}/cmake/must_not_compile.sh ${CMAKE_CURRENT_SOURCE_DIR}/${file}
              ${CMAKE_CXX_COMPILER} -std=c++${CMAKE_CXX_STANDARD} -march=${TACIT_MARCH} -Wall -Wextra -Werror
              "$<$<BOOL:${includes}>:-isystem$<JOIN:$<REMOVE_DUPLICATES:${includes}>,;-isystem>>"
              "$<$<BOOL:${definitions}>:-D$<JOIN:$<REMOVE_DUPLICATES:${definitions}>,;-D>>"
      COMMAND_EXPAND_LISTS)
    set_tests_properties(must_not_compile.${name} PROPERTIES LABELS "fast;compile" TIMEOUT 120)
  endforeach()
endfunction()
