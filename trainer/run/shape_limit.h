#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "millrace/trainer/callback.h"

namespace millrace {

/// Counts the shapes of a training's batches, all features together, and ends it with `kWrongShape` when one more comes
/// than are allowed: each is compiled anew where shapes are fixed. A batch of fewer rows than another of the same
/// features is a short one and no shape of its own. A checkpoint holds what was seen.
class ShapeLimit final : public Callback {
 public:
  /// `most`: 0 as 1, all batches must be alike.
  explicit ShapeLimit(int64_t most) : most_(most > 0 ? most : 1) {}

  int64_t num_shapes() const { return num_shapes_; }

  void batch_inputs(GlobalBatch& batch, int64_t number) override;
  std::string state_name() const override { return "shape_limit"; }
  std::string save_state() const override;
  void restore_state(const std::string& state) override;

 private:
  const int64_t most_;
  int64_t num_shapes_ = 0;
  std::map<std::string, int64_t> most_rows_;  // of batches whose rows have these shapes
};

}  // namespace millrace
