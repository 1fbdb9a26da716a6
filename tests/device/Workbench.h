// A device with four spaces and five streams, and commands that call functions of a test: what the device tests stand
// on.
#ifndef MT_TESTS_DEVICE_WORKBENCH_H
#define MT_TESTS_DEVICE_WORKBENCH_H

#include "runtime/device/Device.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace mt::tests {

/// A template that copies `elements` floats from argument 0 to argument 1.
inline plan::Template copyTemplate(int64_t elements) {
  plan::Template code{.name = "copy", .arguments = {}, .workspaceBytes = 0, .calls = {}};
  plan::Call call;
  call.signature.kernel = "copy";
  int32_t argument = 0;
  for (kernels::Effect effect : {kernels::Effect::read, kernels::Effect::write}) {
    kernels::OperandType type{kernels::DType::f32, {elements}, effect, true};
    code.arguments.push_back({type.bytes(), effect});
    call.signature.operands.push_back(type);
    call.operands.push_back({argument++, 0});
  }
  code.calls.push_back(std::move(call));
  return code;
}

inline plan::Command copyCommand(plan::Span from, plan::Span to, plan::BindingEffect effect, bool fresh = false) {
  plan::Command command;
  command.arguments = {{from, plan::BindingEffect::read, false}, {to, effect, fresh}};
  return command;
}

class Workbench {
public:
  /// Spaces: 0 device, 1 staging, 2 state, 3 what read() copies to; streams: 0 and 1 host, 2 upload, 3 download,
  /// 4 compute.
  explicit Workbench(std::unique_ptr<device::Device> made) : device(std::move(made)) {
    Status status = device->reserve(spaces, streams);
    EXPECT_EQ(status.message(), "");
  }

  /// Issues a command that calls `function`.
  void call(uint32_t stream, const char *label, std::function<Status()> function) {
    EXPECT_EQ(tryCall(stream, label, std::move(function)).message(), "");
  }
  /// The same where the device may have stopped.
  Status tryCall(uint32_t stream, const char *label, std::function<Status()> function) {
    device::HostFunctions functions;
    auto &held = kept.emplace_back();
    held.instead["feed"] = [function = std::move(function)](const kernels::Signature &, std::span<void *const>) {
      return function();
    };
    MT_ASSIGN(device::Code code, device->prepare(stream, caller, held));
    return device->run(stream, code, {}, {}, {label, 0});
  }
  /// The bytes of a span of any space, once everything is done.
  std::vector<std::byte> read(plan::Span span) {
    if (device->host(span).empty()) {
      plan::Span copy{3, 0, span.bytes};
      EXPECT_EQ(device->copy(3, span, copy, {"read back", 0}).message(), "");
      EXPECT_EQ(device->synchronize().message(), "");
      span = copy;
    }
    std::span<std::byte> bytes = device->host(span);
    return {bytes.begin(), bytes.end()};
  }
  std::span<float> floats(plan::Span span) {
    std::span<std::byte> bytes = device->host(span);
    return {reinterpret_cast<float *>(bytes.data()), bytes.size() / sizeof(float)};
  }

  const std::vector<plan::Space> spaces = {{plan::SpaceKind::device, 0, 4096, "device"},
                                           {plan::SpaceKind::staging, 0, 5000, "staging"},
                                           {plan::SpaceKind::state, 0, 1234, "state"},
                                           {plan::SpaceKind::staging, 0, 4096, "read back"}};
  const std::vector<plan::Stream> streams = {{plan::StreamKind::host, 0, "host"},
                                             {plan::StreamKind::host, 0, "host 2"},
                                             {plan::StreamKind::upload, 0, "upload"},
                                             {plan::StreamKind::download, 0, "download"},
                                             {plan::StreamKind::compute, 0, "compute"}};

private:
  const plan::Template caller = [] {
    plan::Template code;
    code.name = "caller";
    code.calls.emplace_back().signature.kernel = "feed";
    return code;
  }();
  std::deque<device::HostFunctions> kept;

public:
  std::unique_ptr<device::Device> device; ///< released first: its commands use the rest
};

} // namespace mt::tests
#endif
