# MLIR 22 and its table generator; a function for libraries that see MLIR.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}) # mlir_tablegen reads this

# A static library that includes MLIR headers and links MLIR and LLVM.
function(mt_mlir_library name)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE -Wno-unused-parameter -fno-rtti
    $<$<CONFIG:Release>:-O1>) # a model compiles in seconds anyway; what people wait for is the build
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  target_precompile_headers(${name} PRIVATE # most of a file's compile time
    <mlir/Dialect/Func/IR/FuncOps.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/IRMapping.h>
    <mlir/IR/OpImplementation.h> <mlir/IR/TypeUtilities.h> <mlir/Pass/Pass.h> <llvm/ADT/TypeSwitch.h>)
endfunction()
