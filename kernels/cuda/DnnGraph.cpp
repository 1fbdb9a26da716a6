#include "kernels/cuda/DnnGraph.h"

namespace mt::kernels::cuda {

Status check(cudnn_frontend::error_t error, std::string_view what) {
  if (error.is_good())
    return {};
  std::string message = error.get_message();
  return fail("cuDNN, {}: {}", what, message.substr(0, message.find('\n'))); // what follows is of every engine
}

std::shared_ptr<DnnGraph> emptyGraph(DType type, const Dnn &dnn) {
  using cudnn_frontend::DataType_t;
  auto made = std::make_shared<DnnGraph>();
  made->set_io_data_type(type == DType::f32   ? DataType_t::FLOAT
                         : type == DType::f16 ? DataType_t::HALF
                                              : DataType_t::BFLOAT16)
      .set_intermediate_data_type(DataType_t::FLOAT)
      .set_compute_data_type(DataType_t::FLOAT);
  if (dnn.described)
    made->set_device_properties(dnn.described).set_sm_version(dnn.describedCapability);
  return made;
}

Status buildPlan(DnnGraph &made, Dnn &dnn, uint64_t scratch, const std::vector<Note> &notes, std::string_view what) {
  MT_TRY(check(made.validate(), fmt::format("describing {}", what)));
  MT_TRY(check(dnn.described ? made.build_operation_graph() : made.build_operation_graph(dnn.handle),
               fmt::format("building the graph of {}", what)));
  MT_TRY(check(made.create_execution_plans({cudnn_frontend::HeurMode_t::A, cudnn_frontend::HeurMode_t::FALLBACK}),
               "looking for plans"));
  made.deselect_workspace_greater_than(static_cast<int64_t>(scratch));
  made.deselect_numeric_notes(notes);
  MT_TRY(check(made.check_support(), fmt::format("looking for plans within {} bytes", scratch)));
  MT_TRY(check(made.build_plans(cudnn_frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE), "building a plan"));
  int64_t needed = made.get_workspace_size();
  if (needed < 0 || static_cast<uint64_t>(needed) > scratch)
    return fail("cuDNN needs {} bytes of scratch, the plan gives {}", needed, scratch);
  return {};
}

Result<std::shared_ptr<DnnGraph>> knownGraph(Dnn &dnn, const std::string &name,
                                             const std::function<Result<std::shared_ptr<DnnGraph>>()> &build) {
  std::scoped_lock lock(dnn.mutex);
  std::shared_ptr<void> &known = dnn.graphs[name];
  if (!known) {
    MT_ASSIGN(std::shared_ptr<DnnGraph> made, build());
    known = made;
  }
  return std::static_pointer_cast<DnnGraph>(known);
}

Status enqueue(const DnnGraph &built, Dnn &dnn, Stream stream, int64_t launches, std::span<void *> addresses,
               void *workspace, std::string_view what) {
  MT_TRY(stream.launching(launches));
  if (cudnnStatus_t status = dnn.call.cudnnSetStream(dnn.handle, stream); status != CUDNN_STATUS_SUCCESS)
    return fail("cuDNN, choosing a stream: {}", dnn.call.cudnnGetErrorString(status));
  return check(built.execute(dnn.handle, addresses.data(), static_cast<int>(addresses.size()), workspace),
               fmt::format("running {}", what));
}

Status describeGpu(Dnn &dnn, int capability, const std::string &description) {
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  MT_TRY(check(properties->deserialize({description.begin(), description.end()}), "reading the description of a GPU"));
  dnn.described = properties;
  dnn.describedCapability = capability;
  dnn.graphs.clear();
  return {};
}

} // namespace mt::kernels::cuda
