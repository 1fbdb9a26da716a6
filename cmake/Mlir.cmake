# MLIR 22 and its table generator; a function for libraries that see MLIR.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}) # mlir_tablegen reads this

# Debian's MLIR libraries ask for all of LLVM as one shared library; those that are used here need two.
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported})
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  if(target MATCHES "^MLIR" AND links)
    list(TRANSFORM links REPLACE "^LLVM$" "LLVMRemarks;LLVMSupport")
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
  endif()
endforeach()

set(MT_MLIR_OPTIONS -Wno-unused-parameter -fno-rtti ${MT_BRIEFLY_RUN})

mt_headers(mt_mlir_headers
  <mlir/Dialect/Func/IR/FuncOps.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/IRMapping.h>
  <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h> <mlir/IR/TypeUtilities.h> <mlir/Pass/Pass.h>
  <llvm/ADT/SetVector.h> <llvm/ADT/TypeSwitch.h> "${PROJECT_SOURCE_DIR}/compiler/nn/Nn.h")
add_dependencies(mt_mlir_headers mt_nn_inc)
target_compile_options(mt_mlir_headers PRIVATE ${MT_MLIR_OPTIONS})

# A static library that includes MLIR headers and links what it needs of MLIR, statically too: of the 240 MB of its shared
# libraries mtc has use for 8, and starts in 3 ms instead of 45.
function(mt_mlir_library name)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE ${MT_MLIR_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM mt_mlir_headers)
  target_link_libraries(${name} PUBLIC MLIRBytecodeWriter MLIRFuncDialect MLIRFuncTransforms MLIRParser MLIRPass MLIRTransforms)
  target_link_options(${name} PUBLIC -Wl,--as-needed) # LLVM names libraries that only other parts of it need
endfunction()
