// Updates of parameters in the program that is being built: on the host in parts, or on a device, where the state lives
// or comes and goes.
#ifndef MT_COMPILER_PLANNER_UPDATES_H
#define MT_COMPILER_PLANNER_UPDATES_H

#include "compiler/planner/DeviceWeights.h"
#include "compiler/planner/Gradients.h"

namespace mt::planner {

class Updates {
public:
  Updates(Context &context, const Layout &layout, const Gradients &gradients, const DeviceWeights &deviceWeights)
      : context(context), layout(layout), gradients(gradients), deviceWeights(deviceWeights) {}

  /// The scalars that updates on a device read.
  void setScalars(uint32_t device, Place place) { scalars[device] = place; }
  /// Parts [first, end) of what a layer's backward completed, each or all, kernel by kernel. Those that are speculative
  /// have begun before, and end.
  void run(int64_t l, int64_t first, int64_t end = Context::kNone);
  /// Begins the speculative update of a layer.
  void speculate(int64_t l);

private:
  /// Elements of a parameter, and where their gradient is. Of a rank's share they are rank 0's.
  struct Piece {
    int64_t parameter, first, count;
    Place gradient;
    int64_t place = 0; ///< of them, in the state that is there
    bool isShare = false;
  };
  using Part = std::pair<int64_t, std::string>; ///< of a layer, by kernel
  Context &context;
  const Layout &layout;
  const Gradients &gradients;
  const DeviceWeights &deviceWeights;
  std::map<uint32_t, Place> scalars;
  struct Undo {
    Place place;
    const TensorType *type;
  };
  std::map<std::pair<int64_t, Part>, std::vector<Undo>> undos; ///< by layer and part, of each piece: what has begun
  State streamedState;                      ///< of the layer that is being updated: on the device, or read from a file
  std::map<int64_t, Place> streamedWeights; ///< by parameter

  std::map<Part, std::vector<Piece>> piecesOf(int64_t l, int64_t first, int64_t end) const;
  /// Elements of a parameter, with whose state others' comes to a device at once.
  struct Range {
    int64_t parameter, first, count;
  };
  std::vector<std::vector<Range>> streamedAtOnce(int64_t l) const;
  int64_t stateBytes(const Range &range, size_t rest) const;
  int64_t stateBytes(const Range &range) const;
  int64_t weightBytes(int64_t p, int64_t elements) const;
  void updateStreamed(int64_t l, const std::map<Part, std::vector<Piece>> &pieces);
  void bringState(int64_t l, const std::vector<Range> &ranges);
  void takeState(int64_t l, const std::vector<Range> &ranges);
  Moves stateMoves(const std::vector<Range> &ranges) const;
  bool isInFile(Place place) const { return context.machine.isFile(context.out.schedule.slots[place.slot].space); }
  void updateFromFile(int64_t l, int64_t part, std::map<std::string, std::vector<Piece>> pieces);
  const TensorType &typeOf(const Piece &piece, const TensorType &whole, int64_t elements = 1);
  Access updated(const Piece &piece, Place place, int64_t first, const TensorType &whole, int64_t elements = 1);
  Access updatedWeight(const Piece &piece, Place place);
  void gatherWeights(int64_t l, const std::vector<int64_t> &parameters, bool late);
  void placeUndos(int64_t l, const Part &part, const std::vector<Piece> &pieces);
  const TensorType &undoType(const Piece &piece);
  void update(int64_t l, const Part &part, const std::vector<Piece> &pieces,
              kernels::Speculation speculation = kernels::Speculation::none);
};

} // namespace mt::planner
#endif
