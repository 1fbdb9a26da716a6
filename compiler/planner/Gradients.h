// Gradients of parameters in the program that is being built: their sums over micro-batches and layers, their norms,
// and their way to where they are used.
#ifndef MT_COMPILER_PLANNER_GRADIENTS_H
#define MT_COMPILER_PLANNER_GRADIENTS_H

#include "compiler/planner/BlockSums.h"
#include "compiler/planner/Layout.h"

namespace mt::planner {

/// Bytes of a pack from `begin` on: a part of a layer's. Where there are ranks, of what one has of the pack.
struct Landed {
  int64_t begin = 0, end = 0, part = 0;
  Place place, device; ///< where it is on the host, and where it is before
  bool isLate = false; ///< it comes down in the next step
  Place file = {};     ///< where it waits to be read, if that is in a file
};

class Gradients {
public:
  Gradients(Context &context, const Layout &layout) : context(context), layout(layout) {}

  void startProgram() { deviceNorms.clear(); }
  /// Makes places for what one micro-batch gives in the backward of a layer.
  void open(int64_t l, int64_t microBatch);
  /// Where the gradient of a parameter goes, and whether it is added to what is there.
  std::pair<Place, bool> of(int64_t p) const {
    const int64_t k = context.parameter(p).pack;
    return {parts.at(k) + context.parameter(p).packOffset, addsInPlace(layer, k)};
  }
  /// Adds what the micro-batch gave.
  void close(int64_t l, int64_t microBatch);
  /// Norms, and the way to where updates read them, after all micro-batches.
  void land(int64_t l);

  /// In one place, or one for each part.
  const std::vector<Landed> &landed(int64_t k) const { return all.at(k); }
  void bringDown(int64_t l, int64_t k, const Landed &landed);
  /// Where the update of a parameter reads a squared norm, that of what it updates with or of more.
  Place normFor(int64_t p, bool onDevice) const {
    return onDevice             ? deviceNorms.at(p)
           : context.hasRanks() ? layout.ownNorms[static_cast<size_t>(p)]
                                : layout.normOf(p);
  }
  /// After all layers: norms of the whole gradient, from those of all ranks.
  void gatherNorms();

private:
  using Packs = std::map<int64_t, Place>;
  Context &context;
  const Layout &layout;
  int64_t layer = -1;                         ///< whose backward runs
  Packs parts;                                ///< by pack, of the micro-batch that runs, then of the phase
  std::map<uint32_t, BlockSums<Packs>> sums;  ///< of the phase, by device
  BlockSums<Packs> onHost;                    ///< of the phase
  std::map<int64_t, Place> deviceNorms;       ///< by parameter, where a device has them
  std::map<int64_t, std::vector<Landed>> all; ///< by pack

  /// Whether a layer's part is added to that of a later layer where that lies, in one step with its gradient.
  bool addsInPlace(int64_t l, int64_t k) const;
  std::string labelOf(int64_t k, int64_t l) const;
  void addTo(int64_t l, const Engine &engine, const Packs &into, const std::vector<Packs> &others);
  void bringBlocksDown(int64_t l, int64_t count);
  /// `own`: what a rank has of a pack.
  void addPack(std::string label, const Engine &engine, int64_t k, bool own, Place into,
               const std::vector<Place> &from);
  void squaredNorms(std::string label, const Engine &engine, const std::vector<int64_t> &parameters, Place gradient);
  void computeNorms(int64_t l, int64_t k);
  void landOnHost(int64_t l);
  void share(int64_t l, int64_t k, Place all);
  void ownNorms(int64_t k, Place own);
  void land(int64_t l, int64_t k);
  void landFromAll(int64_t l);
  void addRange(std::string label, const Engine &engine, int64_t k, int64_t begin, int64_t end, Place into,
                const std::vector<Place> &from);
  void normParts(int64_t l, int64_t k, uint32_t device, int64_t begin, int64_t end, Place place);
  std::vector<int64_t> rangesOf(int64_t k) const;
  /// Elements of a parameter, and the byte of a range of its pack where they begin.
  struct Piece {
    int64_t parameter, first, count, offset;
  };
  std::vector<Piece> piecesOf(int64_t k, int64_t begin, int64_t end) const;
  void keep(int64_t l, int64_t k, const Landed &landed);
};

} // namespace mt::planner
#endif
