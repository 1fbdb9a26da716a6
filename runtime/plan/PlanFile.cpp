#include "runtime/plan/PlanFile.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Sizes.h"
#include "runtime/plan/PlanProto.h"
#include "runtime/plan/Validate.h"
#include "runtime/plan/VerifyHazards.h"

#include <google/protobuf/stubs/logging.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace mt::plan {
namespace {

static_assert(std::endian::native == std::endian::little, "plan files are little-endian");

struct Header {
  char magic[8];
  uint32_t version, flags;
  uint64_t payloadBytes, digest;
};
static_assert(sizeof(Header) == 32);
constexpr char kMagic[8] = {'M', 'T', 'P', 'L', 'A', 'N', 0, 0};

constexpr std::string_view kRemedy = "recompile the model with this version of mtc";

/// Of a header that is complete and a plan's.
Status checkHeader(const Header &header, uint64_t payloadBytes) {
  if (header.version > kPlanVersion)
    return fail(
        "the plan has version {}, this program reads version {}: it was written by a newer mtc; update mtrun or {}",
        header.version, kPlanVersion, kRemedy);
  if (header.version < kPlanVersion)
    return fail("the plan has version {}, this program reads version {}: it was written by an older mtc; {}",
                header.version, kPlanVersion, kRemedy);
  if (header.flags != 0)
    return fail("the plan has unknown flags {:#x}; {}", header.flags, kRemedy);
  if (payloadBytes < header.payloadBytes)
    return fail("the plan is truncated: {} bytes are missing; copy it again or {}", header.payloadBytes - payloadBytes,
                kRemedy);
  if (payloadBytes > header.payloadBytes)
    return fail("{} bytes too many after the plan; copy it again or {}", payloadBytes - header.payloadBytes, kRemedy);
  return {};
}

Result<Plan> parsePayload(std::span<const std::byte> payload) {
  google::protobuf::LogSilencer silencer; // our message says it
  proto::Plan message;
  if (payload.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return fail("the plan's payload cannot be decoded; {}", kRemedy);
  Result<Plan> plan = fromProto(message);
  return plan.ok() ? std::move(plan) : Result<Plan>(fail("{}; {}", plan.status().message(), kRemedy));
}

Result<Plan> parse(std::span<const std::byte> file) {
  size_t common = std::min(file.size(), sizeof(kMagic));
  if (common > 0 && std::memcmp(file.data(), kMagic, common) != 0)
    return fail("not a plan: it does not begin with MTPLAN; give the file that `mtc compile -o` wrote");
  Header header;
  if (file.size() < sizeof(header))
    return fail("the plan is truncated: it ends within its header; copy it again or {}", kRemedy);
  std::memcpy(&header, file.data(), sizeof(header));
  std::span<const std::byte> payload = file.subspan(sizeof(header));
  MT_TRY(checkHeader(header, payload.size()));
  if (uint64_t digest = XXH3_64bits(payload.data(), payload.size()); digest != header.digest)
    return fail("the plan is damaged: its checksum is {:016x}, its bytes give {:016x}; copy it again or {}",
                header.digest, digest, kRemedy);
  MT_ASSIGN(Plan plan, parsePayload(payload));
  plan.digest = header.digest;
  return plan;
}

Status validateWhole(const Plan &plan) {
  MT_TRY(validate(plan));
  return verifyPlan(plan);
}

} // namespace

static std::vector<std::byte> fileOf(Plan &plan, const proto::Plan &message) {
  const std::string payload = message.SerializeAsString();
  plan.digest = XXH3_64bits(payload.data(), payload.size());
  Header header = {
      .magic = {}, .version = kPlanVersion, .flags = 0, .payloadBytes = payload.size(), .digest = plan.digest};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::vector<std::byte> file(sizeof(header) + payload.size());
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), payload.data(), payload.size());
  return file;
}

std::vector<std::byte> serialize(Plan &plan) { return fileOf(plan, toProto(plan)); }

Status save(Plan &plan, const std::string &path) {
  MT_TRY(validateWhole(plan).within(path));
  const proto::Plan message = toProto(plan);
  if (const size_t bytes = message.ByteSizeLong(); bytes > INT32_MAX) { // the most that protobuf writes
    size_t commands = 0;
    for (const Program &program : plan.programs)
      commands += program.commands.size();
    return fail("{}: the plan has {} commands, {}, and a plan may have 2 GiB: give a larger --micro-batch or a smaller "
                "--batch",
                path, commands, formatSize(bytes));
  }
  return writeFileAtomically(path, fileOf(plan, message));
}

Result<Plan> deserialize(std::span<const std::byte> file, const std::string &name) {
  Result<Plan> plan = parse(file);
  if (!plan.ok())
    return plan.status().within(name);
  if (Status valid = validateWhole(*plan); !valid.ok())
    return fail("{}: {}; {}", name, valid.message(), kRemedy);
  return plan;
}

Result<Plan> load(const std::string &path) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  return deserialize(file.bytes(), path);
}

} // namespace mt::plan
