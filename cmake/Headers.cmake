# Headers compiled once for many targets: reading them is most of what a small file takes to compile.

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
