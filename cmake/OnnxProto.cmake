# mt_onnx_proto: the ONNX schema as C++ classes. tools/setup.sh fetches third_party/onnx/onnx-ml.proto, pinned and
# hash-checked; include as "third_party/onnx/onnx-ml.pb.h". The models' writer and the compiler's importer share it;
# nothing under runtime/ links it.
set(MT_ONNX_SCHEMA third_party/onnx/onnx-ml.proto)
if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${MT_ONNX_SCHEMA})
  message(FATAL_ERROR "${MT_ONNX_SCHEMA} is missing; run tools/setup.sh, which fetches it")
endif()
set(MT_ONNX_CPP ${PROJECT_BINARY_DIR}/third_party/onnx/onnx-ml.pb.cc)
add_custom_command(
  OUTPUT ${MT_ONNX_CPP} ${PROJECT_BINARY_DIR}/third_party/onnx/onnx-ml.pb.h
  COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${PROJECT_BINARY_DIR} ${MT_ONNX_SCHEMA}
  DEPENDS ${MT_ONNX_SCHEMA} VERBATIM)
add_library(mt_onnx_proto STATIC ${MT_ONNX_CPP})
target_compile_options(mt_onnx_proto PRIVATE -w)
target_include_directories(mt_onnx_proto SYSTEM PUBLIC ${PROJECT_BINARY_DIR} ${Protobuf_INCLUDE_DIRS})
target_link_libraries(mt_onnx_proto PUBLIC protobuf::libprotobuf-lite)
