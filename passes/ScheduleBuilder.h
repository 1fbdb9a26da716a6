// From a LayerModel to the commands of step, finish and evaluate. A step is a sequence of phases - the forward of each
// layer, the loss, the backward of each layer - and every phase takes all micro-batches in turn, in an order that
// alternates, so that the boundary made last is used first. What a phase needs is prefetched `prefetchDistance` phases ahead.
#ifndef MT_PASSES_SCHEDULEBUILDER_H
#define MT_PASSES_SCHEDULEBUILDER_H
#include "passes/CommandWriter.h"
#include "passes/LayerModel.h"
#include "runtime/plan/Program.h"

#include <map>

namespace mt::passes {

class ScheduleBuilder {
public:
  ScheduleBuilder(mlir::ModuleOp module, const LayerModel &model, const plan::Settings &options, CommandWriter &writer);
  void build();

private:
  /// All micro-batches of one layer in one direction.
  struct Phase {
    int64_t layer;
    bool backward;
  };
  /// Where a parameter was brought, and the last phase that it was wanted there for.
  struct DeviceWeight {
    Place place;
    int64_t until = 0;
  };
  using Key = std::pair<int64_t, int64_t>; ///< (index, micro-batch)

  mlir::ModuleOp module;
  const LayerModel &model;
  const plan::Settings &options;
  const int64_t microBatches;
  CommandWriter &writer;
  bool evaluating = false;
  std::vector<Phase> phases;

  // Persistent places.
  std::vector<Place> weights;                ///< by parameter, host
  std::vector<Place> remainder, firstMoment, secondMoment;
  std::vector<Place> norms;                  ///< by parameter, host, f64[1]
  std::vector<Place> inputs;                 ///< by input, host, all micro-batches
  Place scalars, finalScalars;               ///< host
  std::vector<Place> keptGradients;          ///< by pack, host; with clipping

  // What is where in the program being built.
  std::map<Key, Place> inputPlaces;          ///< (input, micro-batch) on the device
  Place deviceScalars, loss;
  std::map<int64_t, DeviceWeight> deviceWeights; ///< by parameter
  std::map<Key, Place> valuePlaces, parkedPlaces, valueGradients;
  std::map<std::pair<int64_t, Key>, Place> savedPlaces; ///< (layer, (saved index, micro-batch))
  std::map<int64_t, Place> gradientParts;    ///< by pack, of the phase that runs
  std::map<int64_t, Place> gradients;        ///< by pack: where the first part came to lie and the others are added

  int64_t bytesOf(int64_t parameter) const;     ///< of the weight
  int64_t fullBytesOf(int64_t parameter) const; ///< of the gradient, or of a moment
  mlir::SmallVector<int64_t> trainedOf(int64_t layer) const;  ///< of those whose weights it holds
  mlir::SmallVector<int64_t> completedBy(int64_t layer) const; ///< those whose gradient is complete with its backward
  std::string named(mlir::ArrayRef<int64_t> parameters) const;
  std::string gradientLabel(int64_t pack, int64_t layer) const;
  mlir::SmallVector<int64_t> order(int64_t phase) const;

  void placePersistent();
  void placeWeights();
  void placeState(int64_t layer);
  void placeGradients();
  void placeInputs();
  void buildStep();
  void buildFinish();
  void buildEvaluate();
  void startProgram(schedule::Program program);
  void feed();

  void runPhases();
  void preparePhase(int64_t phase);
  void prefetchWeights(int64_t phase);
  mlir::SmallVector<int64_t> missingWeights(int64_t phase);
  void bringWeights(int64_t layer, mlir::ArrayRef<int64_t> parameters);
  void prefetchValues(int64_t phase, int64_t microBatch);
  void runPhase(int64_t phase, int64_t microBatch, bool first);
  void forward(const Phase &phase, int64_t microBatch, bool first);
  void backward(const Phase &phase, int64_t microBatch, bool first);
  void endBackward(const Phase &phase);
  void park(int64_t phase, int64_t microBatch);

  Bound stepSum(int64_t value, bool first);
  Place operandPlace(const Layer &layer, int64_t operand, int64_t microBatch);
  Place inputPlace(int64_t input, int64_t microBatch);
  Place arrivingGradient(int64_t value, int64_t microBatch, mlir::RankedTensorType type);
  Bound gradientOf(const Layer &layer, int64_t operand, int64_t microBatch, bool first, mlir::Type type);
  bool isParked(int64_t value) const;
  bool neededByBackward(int64_t value) const;

  void openGradients(int64_t layer);
  void computeNorms(int64_t layer, const GradientPack &pack);
  void landGradients(int64_t layer, int64_t pack);
  void addPart(const GradientPack &pack, Place part, Place sum);
  void computeNormsOfSum(const GradientPack &pack, Place sum);
  void updateLayer(int64_t layer);
  void updateParameters(int64_t layer, mlir::ArrayRef<int64_t> parameters);
  void endStep();
};

} // namespace mt::passes
#endif
