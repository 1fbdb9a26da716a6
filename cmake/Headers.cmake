# What keeps a full build short. Headers compiled once for many targets, and files of a library compiled a few at a time:
# reading headers, and making the same of their templates, is most of what a small file takes to compile.

# mt_few_units(TARGET..): compiles four files at a time. Names of their own that two of them share are an error then. A
# `using namespace` reaches the next file, where it may make a name ambiguous, an error too; the project's own names come
# before those that it brings. Files that need one that others of the library must not have stay alone.
function(mt_few_units)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
endfunction()

# mt_headers(NAME HEADERS..): such a set; targets of the same compile options use it by
# target_precompile_headers(TARGET REUSE_FROM NAME).
function(mt_headers name)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

set(MT_COMMON_HEADERS <algorithm> <array> <cmath> <cstring> <filesystem> <functional> <map> <memory> <optional> <set>
                      <span> <string> <vector> <fmt/format.h>)

mt_headers(mt_common_headers ${MT_COMMON_HEADERS})
target_link_libraries(mt_common_headers PRIVATE fmt::fmt)

mt_headers(mt_onnx_headers ${MT_COMMON_HEADERS} <third_party/onnx/onnx-ml.pb.h>)
target_compile_options(mt_onnx_headers PRIVATE ${MT_BRIEFLY_RUN})
target_link_libraries(mt_onnx_headers PRIVATE fmt::fmt mt_onnx_proto)

if(MT_TESTS)
  find_package(GTest REQUIRED)
  mt_headers(mt_test_headers ${MT_COMMON_HEADERS} <gtest/gtest.h>)
  target_compile_options(mt_test_headers PRIVATE ${MT_BRIEFLY_RUN})
  target_link_libraries(mt_test_headers PRIVATE fmt::fmt GTest::gtest)
endif()
