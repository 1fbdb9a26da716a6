#include "compiler/planner/Builder.h"

#include "compiler/planner/DeviceValues.h"
#include "compiler/planner/DeviceWeights.h"
#include "compiler/planner/Gradients.h"
#include "compiler/planner/Updates.h"

#include <algorithm>
#include <utility>

namespace mt::planner {
namespace {
using plan::BindingEffect;

class Builder {
public:
  Builder(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent)
      : context(model, machine, decisions, extent), layout(context), weights(context, layout), values(context, layout),
        gradients(context, layout), updates(context, layout, gradients, weights) {}

  Schedule run() {
    buildStep();
    if (context.extent == Extent::plan) {
      buildFinish();
      buildEvaluate();
      moveResidents(out.schedule.load, true);
      moveResidents(out.schedule.store, false);
    }
    return std::move(out.schedule);
  }

private:
  Context context;
  Layout layout;
  DeviceWeights weights;
  DeviceValues values;
  Gradients gradients;
  Updates updates;
  Emitter &out = context.out;
  const Model &model = context.model;
  const Machine &machine = context.machine;
  std::map<uint32_t, Place> losses; ///< by device that the last layer runs on: a place for each micro-batch
  std::map<uint32_t, Place> predictions; ///< the same, of evaluations that give them

  void startProgram(std::vector<Command> &program) {
    out.startProgram(program);
    out.setPlace(-1, -1);
    out.setPhase(0);
    context.evaluating = &program == &out.schedule.evaluate;
    context.phases.clear();
    weights.startProgram();
    values.startProgram();
    gradients.startProgram();
  }

  void buildStep() {
    startProgram(out.schedule.step);
    for (int64_t l = 0; l + 1 < context.layerCount(); ++l)
      context.phases.push_back({l, false});
    for (int64_t l = context.layerCount() - 1; l >= 0; --l)
      if (context.layer(l).isDifferentiated())
        context.phases.push_back({l, true});
    feed();
    runPhases();
    endStep();
    if (model.clip)
      bringFinalScalars();
    for (int64_t l = 0; l < context.layerCount(); ++l)
      updates.run(l, model.clip ? 0 : context.firstLate(l));
  }

  void buildEvaluate() {
    startProgram(out.schedule.evaluate);
    for (int64_t l = 0; l < context.layerCount(); ++l)
      context.phases.push_back({l, false});
    feed();
    runPhases();
    endStep();
  }

  /// What the last step left to the next one; zeros say that nothing is pending any more.
  void buildFinish() {
    startProgram(out.schedule.finish);
    for (int64_t l = 0; l < context.layerCount(); ++l) {
      out.setPlace(l, -1);
      for (int64_t k : context.layer(l).packs)
        if (context.pack(k).complete() == l)
          for (const Landed &landed : gradients.landed(k))
            if (landed.isLate)
              gradients.bringDown(l, k, landed);
      updates.run(l, context.firstLate(l));
    }
    if (out.schedule.finish.empty())
      return;
    out.setPlace(-1, -1);
    Command &command = out.kernel(out.text("nothing pending"), machine.update, "constant",
                                  {out.access(layout.finalScalars, BindingEffect::write, *layout.scalarRows)});
    command.zeros = layout.scalarRows;
  }

  /// What lives on devices, from the host and back to it. In a copy for neighbours of both.
  void moveResidents(std::vector<Command> &program, bool up) {
    startProgram(program);
    for (int64_t l = 0; l < context.layerCount(); ++l) {
      out.setPlace(l, -1);
      Moves moves;
      for (int64_t p : layout.residentOf(l))
        if (up || context.parameter(p).isTrained())
          moves.add(layout.weightOf(p), layout.residentWeights[static_cast<size_t>(p)],
                    context.parameter(p).type.bytes());
      moves.emit(out, out.text("weights layer {}", l), up);
      moves.addState(context, layout, layout.residentOf(l), layout.residentState);
      moves.emit(out, out.text("state layer {}", l), up);
    }
  }

  //-- begin and end of a step or an evaluation ------------------------------------------------------------------------

  /// The batch and the step's scalars, written by the host, and the scalars' way to the devices.
  void feed() {
    std::vector<Access> operands;
    for (size_t i = 0; i < layout.inputs.size(); ++i)
      for (int64_t m = 0; m < model.microBatches; ++m)
        operands.push_back(out.access(layout.inputs[i] + m * model.inputs[i].type.bytes(), BindingEffect::write,
                                      model.inputs[i].type));
    operands.push_back(out.access(layout.scalars, BindingEffect::write, *layout.scalarRows));
    out.kernel(out.text("feed"), machine.feed, "feed", std::move(operands));
    out.kernel(out.text("scalars of the step"), machine.feed, "copy",
               {out.access(layout.scalars, BindingEffect::read, *layout.scalarRows),
                out.access(layout.stepScalars, BindingEffect::write, *layout.scalarRows)});
    for (uint32_t d = 0; d < context.deviceCount(); ++d) {
      Place place = layout.stepScalars;
      if (!machine.unified()) {
        const int64_t bytes = layout.updatesOn(context, d)
                                  ? layout.scalarRows->bytes()
                                  : kScalarsType.bytes(); // updates alone read a parameter's row
        place = out.slot(out.text("device scalars"), context.device(d).memory, Kind::scalar, bytes);
        out.copy(out.text("scalars"), layout.scalars, place, bytes, Urgency::message);
      }
      values.setScalars(d, place);
      updates.setScalars(d, place);
    }
    const int64_t loss = context.layerCount() - 1;
    for (uint32_t d : context.devicesOf(loss)) {
      losses[d] =
          out.slot(out.text("loss"), context.device(d).memory, Kind::scalar, kLossType.bytes() * model.microBatches);
      if (const TensorType *type = predictionType())
        predictions[d] = out.slot(out.text("predictions"), context.device(d).memory, Kind::activation,
                                  type->bytes() * model.microBatches);
    }
  }

  /// What a micro-batch of an evaluation predicts; null of steps, and where it predicts nothing.
  const TensorType *predictionType() const {
    const Layer &last = context.layer(context.layerCount() - 1);
    if (context.evaluating)
      for (const Result &result : context.code(last.primal).results)
        if (result.kind == Result::prediction)
          return &result.type;
    return nullptr;
  }

  /// Updates on a device wait for the clip scale as those on the host do.
  void bringFinalScalars() {
    out.setPlace(-1, -1);
    for (uint32_t d = 0; d < context.deviceCount(); ++d) {
      if (machine.unified() || !layout.updatesOn(context, d))
        continue;
      Place place = out.slot(out.text("device final scalars"), context.device(d).memory, Kind::scalar,
                             layout.scalarRows->bytes());
      out.copy(out.text("final scalars"), layout.finalScalars, place, layout.scalarRows->bytes(), Urgency::message);
      updates.setScalars(d, place);
    }
  }

  /// Global norm and clip scale, the losses' way back and their sum, and the report to the training loop.
  void endStep() {
    out.setPlace(-1, -1);
    const int64_t loss = context.layerCount() - 1;
    Place reported = layout.stepScalars, landed = losses.at(context.deviceOf(loss, 0));
    if (!context.evaluating) {
      if (context.hasRanks())
        gradients.gatherNorms();
      std::vector<Access> operands{out.access(layout.stepScalars, BindingEffect::read, *layout.scalarRows)};
      for (size_t p = 0; p < model.parameters.size(); ++p)
        if (model.parameters[p].isTrained() && model.parameters[p].spec->learns)
          operands.push_back(out.access(layout.norms[p], BindingEffect::read, kNormType));
      operands.push_back(out.access(layout.finalScalars, BindingEffect::write, *layout.scalarRows));
      out.kernel(out.text("gradient norm"), machine.update, "step_norm", std::move(operands));
      reported = layout.finalScalars;
    }
    if (!machine.unified()) {
      landed = out.slot(out.text("landed loss"), machine.staging, Kind::scalar, kLossType.bytes() * model.microBatches);
      bringDown("loss", losses, landed, kLossType.bytes());
    }
    int64_t count = model.microBatches;
    if (context.hasRanks()) {
      landed = lossesOfAllRanks(landed);
      count *= model.ranks;
    }
    std::vector<Access> operands{out.access(sumOf(landed, count), BindingEffect::read, kLossType),
                                 out.access(reported, BindingEffect::read, kScalarsType)};
    if (const TensorType *type = predictionType())
      operands.push_back(reportedPredictions(*type));
    out.kernel(out.text("report"), machine.report, "report", std::move(operands));
  }

  /// The micro-batches' parts of the last layer's results, `size` bytes each, to the host.
  void bringDown(std::string_view what, const std::map<uint32_t, Place> &from, Place to, int64_t size) {
    const int64_t loss = context.layerCount() - 1;
    for (int64_t m = 0, end = 0; m < model.microBatches; m = end) { // those of a device lie together
      const uint32_t device = context.deviceOf(loss, m);
      while (end < model.microBatches && context.deviceOf(loss, end) == device)
        ++end;
      out.copy(out.text("{}", what), from.at(device) + m * size, to + m * size, (end - m) * size, Urgency::message);
    }
  }

  /// Of all micro-batches, one after the other.
  Access reportedPredictions(const TensorType &type) {
    Place landed = predictions.at(context.deviceOf(context.layerCount() - 1, 0));
    if (!machine.unified()) {
      landed = out.slot(out.text("landed predictions"), machine.staging, Kind::activation,
                        type.bytes() * model.microBatches);
      bringDown("predictions", predictions, landed, type.bytes());
    }
    return out.access(landed, BindingEffect::read,
                      out.type(type.type, {type.dims[0] * model.microBatches, type.dims[1]}));
  }

  Place lossesOfAllRanks(Place own) {
    const kernels::DType type = kLossType.type;
    const int64_t count = model.microBatches * model.ranks;
    const TensorType &whole = out.type(type, {count});
    const Place all = out.slot(out.text("losses"), machine.staging, Kind::scalar, whole.bytes());
    out.kernel(out.text("losses of this rank"), machine.report, "copy",
               {out.access(own, BindingEffect::read, out.type(type, {model.microBatches})),
                out.accessShare(all, BindingEffect::write, type, sharesOfMicroBatches(model))});
    out.exchange(out.text("losses of all ranks"), *machine.network, "all_gather",
                 {out.access(all, BindingEffect::update, whole)}, {model.microBatches}, whole.bytes());
    return all;
  }

  /// Of the losses of so many micro-batches.
  Place sumOf(Place landed, int64_t count) {
    if (count == 1)
      return landed;
    std::vector<Access> operands;
    for (int64_t m = 1; m < count; ++m)
      operands.push_back(out.access(landed + m * kLossType.bytes(), BindingEffect::read, kLossType));
    operands.push_back(out.access(landed, BindingEffect::update, kLossType));
    out.kernel(out.text("sum of losses"), machine.report, "pairwise_sum", std::move(operands));
    return landed;
  }

  //-- phases ----------------------------------------------------------------------------------------------------------

  void runPhases() {
    for (int64_t phase = 0; phase < static_cast<int64_t>(context.phases.size()); ++phase) {
      const auto &[l, isBackward] = context.phases[static_cast<size_t>(phase)];
      out.setPhase(phase);
      context.running = phase;
      weights.bring(phase);
      for (int64_t i = 0; i < model.microBatches; ++i) {
        const int64_t microBatch = context.microBatchAt(phase, i);
        out.setPlace(l, microBatch);
        values.bring(context.phases[static_cast<size_t>(phase)], microBatch);
        if (isBackward)
          backward(l, microBatch);
        else
          forward(l, microBatch);
      }
      if (isBackward)
        endBackward(l);
      else
        values.endForward(l);
    }
  }

  static Access bind(Place place, BindingEffect effect, const TensorType &type) {
    return {place.slot, place.offset, type.bytes(), effect, nullptr};
  }

  Place operandPlace(const Phase &phase, int64_t number, int64_t microBatch) {
    const Operand &what = context.layer(phase.layer).operands[static_cast<size_t>(number)];
    return what.kind == Operand::parameter ? weights.of(what.index, context.deviceOf(phase.layer, microBatch))
                                           : values.operand(phase, what, microBatch);
  }

  Place lossOf(int64_t microBatch) const {
    return losses.at(context.deviceOf(context.layerCount() - 1, microBatch)) + microBatch * kLossType.bytes();
  }

  void forward(int64_t l, int64_t microBatch) {
    const bool plain = context.evaluating || !context.layer(l).isDifferentiated();
    const int64_t callee = plain ? context.layer(l).primal : context.rungOf(l).forward;
    const Template &code = context.code(callee);
    std::vector<Access> operands;
    for (size_t i = 0; i < code.arguments.size(); ++i)
      operands.push_back(bind(operandPlace({l, false}, static_cast<int64_t>(i), microBatch), BindingEffect::read,
                              code.arguments[i].type));
    const bool savedAsOne = !plain && context.isSavedAsOne(l);
    if (!plain)
      values.placeSaved(l, microBatch);
    if (savedAsOne)
      operands.push_back(values.savedAsOne(l, microBatch, BindingEffect::write));
    for (const Result &result : code.results) {
      if (result.kind == Result::saved && savedAsOne)
        continue;
      const Place place =
          result.kind == Result::saved ? values.savedOf(l, microBatch, result.index)
          : result.kind == Result::prediction
              ? predictions.at(context.deviceOf(l, microBatch)) + microBatch * result.type.bytes()
          : context.evaluating && context.layer(l).isLoss
              ? lossOf(microBatch)
              : values.result(l, context.layer(l).results[static_cast<size_t>(result.index)], microBatch, result.type);
      operands.push_back(bind(place, BindingEffect::write, result.type));
    }
    out.run(out.text("forward layer {} mb {}", l, microBatch), callee, context.device(context.deviceOf(l, microBatch)),
            std::move(operands));
    values.endForward(l, microBatch);
  }

  void backward(int64_t l, int64_t microBatch) {
    const int64_t callee = context.rungOf(l).backward;
    const Template &code = context.code(callee);
    gradients.open(l, microBatch);
    std::vector<Access> operands;
    if (context.isSavedAsOne(l))
      operands.push_back(values.savedAsOne(l, microBatch, BindingEffect::read));
    for (const Argument &argument : code.arguments) {
      Place place;
      if (argument.kind == Argument::operand)
        place = operandPlace({l, true}, argument.index, microBatch);
      else if (argument.kind == Argument::saved && context.isSavedAsOne(l))
        continue;
      else if (argument.kind == Argument::saved)
        place = values.savedOf(l, microBatch, argument.index);
      else
        place = values.arrivingGradient(l, context.layer(l).results[static_cast<size_t>(argument.index)], microBatch,
                                        argument.type);
      operands.push_back(bind(place, BindingEffect::read, argument.type));
    }
    for (const Result &result : code.results)
      operands.push_back(result.kind == Result::gradient ? gradientOf(l, result, microBatch)
                                                         : bind(lossOf(microBatch), BindingEffect::write, result.type));
    out.run(context.layer(l).isLoss ? out.text("loss layer {} mb {}", l, microBatch)
                                    : out.text("backward layer {} mb {}", l, microBatch),
            callee, context.device(context.deviceOf(l, microBatch)), std::move(operands));
    gradients.close(l, microBatch);
  }

  /// Where the gradient of an operand goes, and whether it is the first to go there.
  Access gradientOf(int64_t l, const Result &result, int64_t microBatch) {
    const Operand &what = context.layer(l).operands[static_cast<size_t>(result.index)];
    if (what.kind == Operand::parameter) {
      const auto [place, adds] = gradients.of(what.index);
      return bind(place, adds ? BindingEffect::accumulate : BindingEffect::write, result.type);
    }
    const auto [place, isFirst] = values.gradient(l, what.index, microBatch, result.type);
    return bind(place, isFirst ? BindingEffect::write : BindingEffect::accumulate, result.type);
  }

  void endBackward(int64_t l) {
    gradients.land(l);
    if (!model.clip)
      updates.run(l, 0, context.firstLate(l));
    else if (context.speculates(l))
      updates.speculate(l);
  }
};
} // namespace

Schedule build(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent) {
  return Builder(model, machine, decisions, extent).run();
}

} // namespace mt::planner
