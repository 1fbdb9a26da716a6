// Targets as JSON: one table of fields serves reading and writing. Reading accepts no unknown field and no missing one,
// but for an object "measured", which is for people: what `mtrun probe` measures beside what schedules are made of.
#include "compiler/target/Target.h"

#include "runtime/base/Json.h"
#include "runtime/base/Sizes.h"

#include <nlohmann/json.hpp>

#include <array>

namespace mt::target {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMeasured = "measured";

constexpr std::array<TargetField, 25> kFields{{{"name", &Target::name},
                                               {"device", &Target::device},
                                               {"unified", &Target::unified},
                                               {"isa", &Target::isa},
                                               {"devices", &Target::devices},
                                               {"device_memory", &Target::deviceMemory},
                                               {"host_memory", &Target::hostMemory},
                                               {"upload_bandwidth", &Target::uploadBandwidth},
                                               {"download_bandwidth", &Target::downloadBandwidth},
                                               {"host_bandwidth", &Target::hostBandwidth},
                                               {"device_bandwidth", &Target::deviceBandwidth},
                                               {"fp32_flops", &Target::fp32Flops},
                                               {"bf16_flops", &Target::bf16Flops},
                                               {"kernel_overhead_seconds", &Target::kernelOverheadSeconds},
                                               {"copy_overhead_seconds", &Target::copyOverheadSeconds},
                                               {"disk_memory", &Target::diskMemory},
                                               {"disk_read_bandwidth", &Target::diskReadBandwidth},
                                               {"disk_write_bandwidth", &Target::diskWriteBandwidth},
                                               {"ranks", &Target::ranks},
                                               {"network_bandwidth", &Target::networkBandwidth},
                                               {"network_overhead_seconds", &Target::networkOverheadSeconds},
                                               {"device_network_bandwidth", &Target::deviceNetworkBandwidth},
                                               {"peers", &Target::peers},
                                               {"contention", &Target::contention},
                                               {"calls", &Target::calls}}};
/// Of the fields, what a file need not have.
bool mayMiss(const TargetField &field) {
  return std::holds_alternative<std::vector<std::string> Target::*>(field.member) ||
         std::holds_alternative<uint32_t Target::*>(field.member) || field.name == "isa" ||
         field.name.starts_with("disk_") || field.name.starts_with("network_") ||
         field.name.starts_with("device_network_");
}

Status wrongType(std::string_view name, const Json &value, std::string_view wanted) {
  return fail("{} is {}; it must be {}", name, value.dump(-1, ' ', false, Json::error_handler_t::replace), wanted);
}

Status read(std::string_view name, const Json &value, std::string &into) {
  if (!value.is_string())
    return wrongType(name, value, "text");
  into = value.get<std::string>();
  return {};
}
Status read(std::string_view name, const Json &value, bool &into) {
  if (!value.is_boolean())
    return wrongType(name, value, "true or false");
  into = value.get<bool>();
  return {};
}
Status read(std::string_view name, const Json &value, uint32_t &into) {
  constexpr uint32_t kMost = std::max(kMostDevices, kMostRanks);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost)
    return wrongType(name, value, fmt::format("a whole number up to {}", kMost));
  into = value.get<uint32_t>();
  return {};
}
Status read(std::string_view name, const Json &value, uint64_t &into) {
  if (value.is_string()) {
    auto size = parseSize(value.get_ref<const std::string &>());
    if (!size.ok())
      return size.status().within(std::string(name));
    into = *size;
    return {};
  }
  if (!value.is_number_unsigned())
    return wrongType(name, value, "a whole number of bytes, or a size such as \"80GiB\"");
  into = value.get<uint64_t>();
  return {};
}
Status read(std::string_view name, const Json &value, double &into) {
  if (!value.is_number())
    return wrongType(name, value, "a number");
  into = value.get<double>();
  return {};
}

Status read(std::string_view name, const Json &value, std::vector<std::string> &into) {
  if (!value.is_array())
    return wrongType(name, value, "a list of texts");
  for (const Json &line : value)
    MT_TRY(read(fmt::format("{}[{}]", name, into.size()), line, into.emplace_back()));
  return {};
}

const TargetField *findField(std::string_view name) {
  for (const TargetField &field : kFields)
    if (field.name == name)
      return &field;
  return nullptr;
}

Result<Target> readTarget(std::string_view text) {
  const Result<Json> parsed = parseOrderedJson(text);
  if (!parsed)
    return fail("is not JSON: {}; write it with `mtrun probe -o`", parsed.status().message());
  const Json &json = *parsed;
  if (!json.is_object())
    return fail("must be one JSON object, as `mtrun probe -o` writes it");
  for (const auto &[name, value] : json.items()) {
    if (name == kMeasured && !value.is_object())
      return wrongType(name, value, "an object");
    if (name != kMeasured && !findField(name))
      return fail("unknown field \"{}\"; the fields are those that `mtrun probe -o` writes", name);
  }
  Target target;
  for (const TargetField &field : kFields) {
    const auto found = json.find(field.name);
    if (found == json.end() && mayMiss(field))
      continue;
    if (found == json.end())
      return fail("field \"{}\" is missing; write the file with `mtrun probe -o`", field.name);
    MT_TRY(std::visit([&](auto member) { return read(field.name, *found, target.*member); }, field.member));
  }
  MT_TRY(completeTarget(target));
  return target;
}

} // namespace

Result<Target> parseTarget(std::string_view json, std::string_view origin) {
  Result<Target> target = readTarget(json);
  return target.ok() ? std::move(target) : target.status().within(std::string(origin));
}

std::span<const TargetField> targetFields() { return kFields; }

std::string printTarget(const Target &target) {
  Json json;
  const Target usual;
  for (const TargetField &field : kFields)
    std::visit(
        [&](auto member) {
          if (!mayMiss(field) || target.*member != usual.*member)
            json[std::string(field.name)] = target.*member;
        },
        field.member);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace mt::target
