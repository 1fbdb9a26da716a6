#include "runtime/probe/Probe.h"

#include "kernels/Optimizers.h"
#include "kernels/Samples.h"
#include "kernels/SignatureText.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/network/OpenNetwork.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/probe/Bench.h"
#include "runtime/probe/Disk.h"
#include "runtime/probe/NetworkRates.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace mt::probe {
namespace {

using kernels::DType;
using kernels::Effect;
using kernels::OperandType;
using kernels::Signature;

/// Each is measured so often, with everything else in between: the median is not of one bad moment.
constexpr size_t kRounds = 3;

/// Large enough that what is measured dwarfs what starting it costs.
struct Sizes {
  int64_t product;        ///< rows, columns and depth of the matrix product
  int64_t deviceElements; ///< of elementwise work on the device
  int64_t hostElements;   ///< of updates and copies on the host
  uint64_t copyBytes;
  double seconds; ///< that each takes at least: so long that a GPU's clocks settle
  // Of samples of calls: at most so much work, and at least so long.
  double sampleFlops, sampleBytes, sampleSeconds;
};
constexpr Sizes kCpuSizes = {2048, int64_t(1) << 24, int64_t(1) << 24, uint64_t(1) << 27, 0.05, 2.2e10, 3e8, 0.003};
constexpr Sizes kGpuSizes = {8192, int64_t(1) << 28, int64_t(1) << 26, uint64_t(1) << 30, 0.3, 1.2e12, 2e9, 0.01};

Signature product(DType type, int64_t size) {
  kernels::Dims dims = {size, size};
  return {"matmul", {}, {{type, dims}, {type, dims}, {type, {size}, Effect::read, false}, {type, dims, Effect::write}}};
}

Signature sum(int64_t elements) {
  kernels::Dims dims = {elements};
  return {"add", {}, {{DType::f32, dims}, {DType::f32, dims}, {DType::f32, dims, Effect::write}}};
}

Signature copyOf(int64_t elements) {
  kernels::Dims dims = {elements};
  return {"copy", {}, {{DType::f32, dims}, {DType::f32, dims, Effect::write}}};
}

/// What is measured of one device.
class Probe {
public:
  Probe(const ProbeOptions &options, uint64_t deviceMemory, uint64_t hostMemory)
      : options(options), deviceMemory(deviceMemory), hostMemory(hostMemory) {
    const kernels::OptimizerSpec &usual = kernels::optimizers().front();
    const Signature update = kernels::updateCall(usual, false, {sizes.hostElements}),
                    splitUpdate = kernels::updateCall(usual, true, {sizes.hostElements});
    upload = add({Lane::upload, {}, sizes.copyBytes});
    download = add({Lane::download, {}, sizes.copyBytes});
    smallCopy = add({Lane::upload, {}, 64});
    hostCopy = add({Lane::host, copyOf(sizes.hostElements)});
    updates = add({Lane::host, update});
    splitUpdates = add({Lane::host, splitUpdate});
    memory = add({Lane::compute, sum(sizes.deviceElements)});
    smallKernel = add({Lane::compute, sum(16)});
    single = add({Lane::compute, product(DType::f32, sizes.product)});
    half = add({Lane::compute, product(DType::bf16, sizes.product)});
    firstCall = works.size();
    if (options.brief || options.roofline)
      return;
    for (const Signature &call : kernels::sampleCalls(sizes.sampleFlops, sizes.sampleBytes))
      addCall({Lane::compute, call});
    for (const Signature &call : kernels::sampleUpdates(sizes.sampleBytes))
      for (Lane lane : {Lane::compute, Lane::host})
        addCall({lane, call});
  }

  /// Every call of a plan, where it runs. What the training loop does is none.
  void addCalls(const plan::Plan &plan) {
    for (const plan::Program &program : plan.programs)
      for (const plan::Command &command : program.commands)
        if (!command.isCopy)
          for (const plan::Call &call : plan.templates[command.templateIndex].calls)
            addCall({plan.streams[command.stream].kind, call.signature}, program.kind == plan::ProgramKind::step);
  }

  /// A table: what each call of the plans takes, and how near that is to what the machine could do with it - to move its
  /// bytes at the rate of a sum of two arrays or a copy, or to compute at the rate of a large product of its types,
  /// whichever takes longer (Williams et al., Roofline, CACM 52, 2009). Calls that find their operands in a cache may be above.
  Result<std::string> roofline() {
    MT_ASSIGN(bench, Bench::create(options.device, options.threads, works));
    const auto rateOf = [&](double amount, size_t work) -> Result<double> {
      MT_ASSIGN(const double seconds, secondsOf(work));
      return amount / seconds;
    };
    MT_ASSIGN(const double deviceBytes, rateOf(kernels::traffic(works[memory].call), memory));
    MT_ASSIGN(const double hostBytes, rateOf(kernels::traffic(works[hostCopy].call), hostCopy));
    MT_ASSIGN(const double singleFlops, rateOf(kernels::flops(works[single].call), single));
    const Result<double> narrow = rateOf(kernels::flops(works[half].call), half);
    const double halfFlops = narrow.ok() ? *narrow : singleFlops;
    struct Row {
      double seconds, runs, bytes, flops, roof;
      std::string text;
    };
    std::vector<Row> rows;
    double all = 0, roofs = 0;
    for (size_t i = firstCall; i < works.size(); ++i) {
      const Signature &call = works[i].call;
      const Result<double> seconds = bench->time(i, sizes.sampleSeconds);
      if (!seconds.ok())
        continue;
      const bool isNarrow = !call.operands.empty() && call.operands[0].type == DType::bf16;
      const double bytes = kernels::traffic(call) / (works[i].lane == Lane::host ? hostBytes : deviceBytes),
                   flops = kernels::flops(call) / (isNarrow ? halfFlops : singleFlops);
      rows.push_back({*seconds, stepRuns[i], bytes, flops, std::max(bytes, flops),
                      fmt::format("{}{}", works[i].lane == Lane::host ? "host " : "", kernels::printWork(call))});
      all += *seconds * stepRuns[i], roofs += rows.back().roof * stepRuns[i];
    }
    std::ranges::stable_sort(rows, std::greater(), [](const Row &row) { return row.seconds * row.runs; });
    std::string text = fmt::format("{}: sums move {}, copies of the host {}; products f32 {:.0f}, bf16 {:.0f} GFLOP/s\n"
                                   "{:>7} {:>6} {:>10} {:>8} {:>8} {:>8}  {}\n",
                                   options.device, formatBandwidth(deviceBytes), formatBandwidth(hostBytes),
                                   singleFlops / 1e9, halfFlops / 1e9, "of step", "runs", "ms", "of copy", "of rate",
                                   "of roof", "call");
    const auto percent = [](double share) { return fmt::format("{:.0f} %", share * 100); };
    for (const Row &row : rows)
      text += fmt::format("{:>7} {:>6} {:>10.4g} {:>8} {:>8} {:>8}  {}\n",
                          fmt::format("{:.1f} %", all > 0 ? row.seconds * row.runs / all * 100 : 0), row.runs,
                          row.seconds * 1e3, percent(row.bytes / row.seconds), percent(row.flops / row.seconds),
                          percent(row.roof / row.seconds), row.text);
    return text + fmt::format("all calls of a step: {}, {} at the roof, {}\n", formatSeconds(all), formatSeconds(roofs),
                              percent(all > 0 ? roofs / all : 0));
  }

  size_t callCount() const { return works.size() - firstCall; }

  /// The instruction set that the target names, and kernels are held to from now on: what the options say, else amx-f32
  /// where tiles multiply f32 faster than vectors do by a tenth, else none. How much faster they do, into `measured`.
  Result<std::string> chooseInstructionSet(nlohmann::ordered_json &measured) {
    if (!options.isa.empty() || gpu || !device::couldMultiplyFloatsOnTiles())
      return options.isa;
    constexpr int kTurns = 12; // tiles of a shared machine are fast and slow by turns of seconds
    const Work large = {Lane::compute, product(DType::f32, sizes.product)};
    std::unique_ptr<Bench> benches[2]; // a device knows a call again that it has prepared
    for (std::unique_ptr<Bench> &made : benches) {
      MT_ASSIGN(made, Bench::create(options.device, options.threads, {large}));
    }
    double seconds[2] = {};
    for (int turn = 0; turn < kTurns; ++turn)
      for (const bool onTiles : {false, true}) {
        device::multiplyFloatsOnTiles(onTiles);
        MT_ASSIGN(const double one, benches[onTiles]->time(0, sizes.seconds));
        seconds[onTiles] += one;
      }
    const double faster = seconds[0] / seconds[1];
    measured["f32_on_tiles"] = faster;
    device::multiplyFloatsOnTiles(faster > 1.1);
    return std::string(faster > 1.1 ? "amx-f32" : "");
  }

  /// The target, in the words of compiler/target. `network`: what was measured before, if it was.
  Result<nlohmann::ordered_json> measure(const std::optional<NetworkRates> &network) {
    nlohmann::ordered_json target, measured;
    MT_ASSIGN(const std::string isa, chooseInstructionSet(measured));
    MT_ASSIGN(bench, Bench::create(options.device, options.threads, works));
    target["name"] = "probed";
    target["device"] = gpu ? "cuda" : "cpu";
    target["unified"] = !gpu;
    if (!isa.empty())
      target["isa"] = isa;
    target["device_memory"] = gpu ? deviceMemory / 100 * 98 : hostMemory; // 2 % for tables of registered memory and others
    target["host_memory"] = hostMemory;
    MT_TRY(state(target, "upload_bandwidth", static_cast<double>(sizes.copyBytes), upload));
    MT_TRY(state(target, "download_bandwidth", static_cast<double>(sizes.copyBytes), download));
    MT_TRY(state(target, "host_bandwidth", kernels::traffic(works[updates].call), updates));
    MT_TRY(state(target, "device_bandwidth", kernels::traffic(works[memory].call), memory));
    MT_TRY(state(target, "fp32_flops", kernels::flops(works[single].call), single));
    if (Status stated = state(target, "bf16_flops", kernels::flops(works[half].call), half); !stated && gpu)
      return stated;
    else if (!stated)
      target["bf16_flops"] = target["fp32_flops"];
    MT_ASSIGN(target["kernel_overhead_seconds"], secondsOf(smallKernel));
    MT_ASSIGN(target["copy_overhead_seconds"], secondsOf(smallCopy));
    MT_ASSIGN(std::vector<std::string> shared, contention());
    if (!options.disk.empty()) {
      MT_ASSIGN(const DiskRates disk, probeDisk(options.disk));
      target["disk_memory"] = disk.memory;
      target["disk_read_bandwidth"] = disk.read;
      target["disk_write_bandwidth"] = disk.write;
      shared.push_back(fmt::format("read write {:.3g}", disk.together - 1));
    }
    if (network) {
      target["network_bandwidth"] = network->bandwidth;
      target["network_overhead_seconds"] = network->overhead;
      if (network->deviceBandwidth > 0)
        target["device_network_bandwidth"] = network->deviceBandwidth;
    }
    target["contention"] = shared;
    MT_TRY(state(measured, "updates_per_second", static_cast<double>(sizes.hostElements), updates));
    MT_TRY(state(measured, "split_updates_per_second", static_cast<double>(sizes.hostElements), splitUpdates));
    MT_TRY(state(measured, "host_copy_bandwidth", kernels::traffic(works[hostCopy].call), hostCopy));
    MT_ASSIGN(measured["links_beside_updates"], slowdown({upload, download, splitUpdates}));
    target["measured"] = measured;
    if (callCount() > 0)
      target["calls"] = calls();
    return target;
  }

private:
  const ProbeOptions &options;
  const bool gpu = options.device.starts_with("cuda");
  const Sizes sizes = gpu ? kGpuSizes : kCpuSizes;
  const uint64_t deviceMemory, hostMemory;
  std::vector<Work> works;
  std::vector<double> stepRuns; ///< of each work: how often a step of the plans runs it
  std::map<std::pair<Lane, std::string>, size_t> known;
  size_t upload, download, smallCopy, hostCopy, updates, splitUpdates, memory, smallKernel, single, half, firstCall;
  std::unique_ptr<Bench> bench;

  size_t add(Work work) {
    works.push_back(std::move(work));
    stepRuns.push_back(0);
    return works.size() - 1;
  }

  /// Once, unless it is too large, a call of the training loop, or cannot be written down.
  void addCall(Work work, bool ofStep = false) {
    std::erase_if(work.call.operands, [](const OperandType &operand) { return operand.effect == Effect::scratch; });
    if (kernels::isUpdate(work.call.kernel))
      if (const kernels::Speculation speculation = kernels::speculationOf(work.call);
          speculation == kernels::Speculation::ends ||
          (speculation == kernels::Speculation::begins && work.lane != Lane::host))
        return; // an end takes nothing, and the host alone begins any
    double bytes = 0;
    for (const OperandType &operand : work.call.operands)
      bytes += static_cast<double>(operand.bytes());
    const kernels::Kernel *kernel = kernels::find(work.call.kernel);
    const bool computes = kernel && kernel->reads != 0 && kernel->writes != 0;
    Signature again;
    if (!computes || bytes > static_cast<double>(work.lane == Lane::host ? hostMemory / 4 : deviceMemory / 2) || !kernels::parse(kernels::print(work.call), again).empty())
      return;
    auto [found, fresh] = known.try_emplace({work.lane, kernels::printWork(work.call)}, works.size());
    if (fresh)
      add(std::move(work));
    stepRuns[found->second] += ofStep ? 1 : 0;
  }

  Result<double> secondsOf(size_t work) {
    std::array<double, kRounds> tries;
    for (double &seconds : tries) {
      MT_ASSIGN(seconds, bench->time(work, sizes.seconds));
    }
    return median(tries);
  }
  template <typename Tries> static double median(Tries &tries) {
    std::ranges::nth_element(tries, tries.begin() + tries.size() / 2);
    return tries[tries.size() / 2];
  }

  Status state(nlohmann::ordered_json &into, const char *field, double amount, size_t work) {
    MT_ASSIGN(const double seconds, secondsOf(work));
    into[field] = amount / seconds;
    return {};
  }

  /// How many times as long works take at once as alone.
  Result<double> slowdown(const std::vector<size_t> &together) {
    std::array<double, kRounds> tries;
    for (double &one : tries) {
      MT_ASSIGN(one, bench->slowdown(together, sizes.seconds));
    }
    return median(tries);
  }

  /// By how much two streams slow each other down: "upload host 0.24" where both take 1.24 times as long as alone.
  Result<std::vector<std::string>> contention() {
    const size_t byLane[kLanes] = {upload, single, download, splitUpdates};
    std::vector<std::string> lines;
    for (size_t i = 0; i < kLanes; ++i)
      for (size_t j = i + 1; j < kLanes; ++j) {
        MT_ASSIGN(const double both, slowdown({byLane[i], byLane[j]}));
        lines.push_back(fmt::format("{} {} {:.3g}", plan::name(Lane(i)), plan::name(Lane(j)), both - 1));
      }
    return lines;
  }

  /// What calls take: "device 0.00213 matmul f32[...] ...". Those that the machine cannot do are left out.
  std::vector<std::string> calls() {
    std::vector<std::vector<double>> tries(works.size());
    for (size_t round = 0; round < kRounds; ++round)
      for (size_t i = firstCall; i < works.size(); ++i)
        if (round == 0 || !tries[i].empty())
          if (Result<double> seconds = bench->time(i, sizes.sampleSeconds); seconds.ok())
            tries[i].push_back(*seconds);
    std::vector<std::string> lines;
    for (size_t i = firstCall; i < works.size(); ++i)
      if (!tries[i].empty())
        lines.push_back(fmt::format("{} {:.4g} {}", works[i].lane == Lane::host ? "host" : "device", median(tries[i]),
                                    kernels::print(works[i].call)));
    return lines;
  }
};

} // namespace

static Status probeMachine(const ProbeOptions &options, const std::optional<NetworkRates> &network) {
  MT_ASSIGN(const uint64_t deviceMemory, device::availableMemory(options.device));
  std::vector<plan::Plan> plans;
  for (const std::string &path : options.plans) {
    MT_TRY(keepInputs("-o", options.output, std::vector<InputFile>{{"the plan", path}}));
    MT_ASSIGN(plans.emplace_back(), plan::load(path));
  }
  const bool asRun = options.roofline && options.isa.empty() && !plans.empty();
  const plan::Target held = asRun ? plans.front().target : plan::Target();
  for (const plan::Plan &plan : plans)
    if (asRun && plan.target.isa != held.isa)
      return fail(
          "--roofline: targets of the plans name different instruction sets, '{}' and '{}': give them one by one, "
          "or say --isa",
          held.isa, plan.target.isa);
  MT_TRY(device::useInstructionSet(options.isa, held));
  if (options.hostMemory)
    host::trustMachineMemory();
  const uint64_t ownShare = host::machineMemory().available / 8 * 7; // the rest is the system's
  Probe probe(options, deviceMemory, options.hostMemory.value_or(ownShare));
  for (const plan::Plan &plan : plans)
    probe.addCalls(plan);
  if (options.roofline) {
    if (options.plans.empty())
      return fail("--roofline: it is of the calls of plans: name one");
    Result<std::string> table = probe.roofline();
    if (!table)
      return table.status().within("probe");
    return options.output.empty() ? writeOut(*table) : writeFileAtomically(options.output, *table);
  }
  Result<nlohmann::ordered_json> target = probe.measure(network);
  if (!target)
    return target.status().within("probe");
  std::string text = target->dump(2) + "\n";
  if (options.output.empty())
    return writeOut(text);
  MT_TRY(writeFileAtomically(options.output, text));
  auto number = [&](const char *field) { return (*target)[field].get<double>(); };
  const std::string disk =
      options.disk.empty() ? std::string()
                           : fmt::format("disk {} read, {} written; ", formatBandwidth(number("disk_read_bandwidth")),
                                         formatBandwidth(number("disk_write_bandwidth")));
  const std::string past = network && network->deviceBandwidth > 0
                               ? fmt::format(", {} of devices", formatBandwidth(network->deviceBandwidth))
                               : std::string();
  const std::string others = network ? fmt::format("network {}, {:.0f} us at least{}; ",
                                                   formatBandwidth(network->bandwidth), network->overhead * 1e6, past)
                                     : std::string();
  auto measured = [&](const char *field) { return (*target)["measured"][field].get<double>(); };
  return writeAbout(
      options.output,
      fmt::format("{}: fp32 {:.0f}{}, bf16 {:.0f} GFLOP/s; copies {} up, {} down; updates {}; device "
                  "memory {}; {:.2f} G updates/s, "
                  "{:.2f} of split weights; copies within the host {}; both links and split updates at "
                  "once take {:.2f} times as long; {}{}{} kernel calls\n",
                  options.output, number("fp32_flops") / 1e9,
                  target->contains("isa") ? fmt::format(" ({})", (*target)["isa"].get<std::string>()) : "",
                  number("bf16_flops") / 1e9, formatBandwidth(number("upload_bandwidth")),
                  formatBandwidth(number("download_bandwidth")), formatBandwidth(number("host_bandwidth")),
                  formatBandwidth(number("device_bandwidth")), measured("updates_per_second") / 1e9,
                  measured("split_updates_per_second") / 1e9, formatBandwidth(measured("host_copy_bandwidth")),
                  measured("links_beside_updates"), disk, others, probe.callCount()));
}

/// From the memory of GPUs: each rank's first of those that are named, else one of its own. Where that cannot be, a
/// warning says why, and nothing is measured.
static Result<double> betweenGpus(const ProbeOptions &options, network::Network &network) {
  const std::string name =
      options.device == "cuda" ? fmt::format("cuda:{}", network::launchedLocalRank()) : options.device;
  Result<std::unique_ptr<device::Device>> made = device::makeDevice(name, {.network = &network});
  Status why = network::agree(network, network::Channel::loop, made.status());
  if (why) {
    Result<double> rate = probeDeviceNetwork(network, std::move(*made));
    why = network::agree(network, network::Channel::loop, rate.status());
    if (why)
      return rate;
  }
  if (network.rank() == 0)
    log().warn("what devices of ranks send each other past the host's memory is not measured: {}", why.message());
  return network.failure() ? Result<double>(0) : network.failure();
}

/// Of several ranks all measure the network, and the first then the machine.
Status probeMachine(const ProbeOptions &options) {
  const uint32_t ranks = network::launchedRanks();
  if (ranks == 1)
    return probeMachine(options, std::nullopt);
  MT_TRY(device::useInstructionSet(options.isa)); // before a device is made
  MT_ASSIGN(const std::unique_ptr<network::Network> network, network::openNetwork(ranks));
  MT_ASSIGN(NetworkRates rates, probeNetwork(*network));
  if (options.device.starts_with("cuda")) {
    MT_ASSIGN(rates.deviceBandwidth, betweenGpus(options, *network));
  }
  const bool isFirst = network->rank() == 0;
  const Status own = isFirst ? probeMachine(options, rates) : Status();
  const Status all = network::agree(*network, network::Channel::loop, own);
  return isFirst ? own : all ? all : Status();
}

} // namespace mt::probe
