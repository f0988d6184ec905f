#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "millrace/trainer/models/vgg.h"
#include "millrace/trainer/tensor/arena.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Features of pictures by a frozen network: the mean of each channel of the last convolution's maps over all
/// positions, after the relu (global average pooling). Any thread.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(Vgg network);

  const Vgg& network() const { return network_; }
  /// Values of a picture.
  int64_t length() const { return network_.channels(); }
  /// Writes the features of one picture, `[length()]`. `pixels`: `[height, width, 3]`, from 0 to 255. The values do not
  /// depend on what other threads do. Throws `kWrongShape` for a picture that is too small.
  void extract(std::span<const float> pixels, int64_t height, int64_t width, std::span<float> features) const;

 private:
  struct Work {
    Arena arena;
    Tape<float> tape{arena};
  };
  std::unique_ptr<Work> take_work() const;

  const Vgg network_;
  ParameterLayout no_parameters_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Work>> idle_;  // as many as have worked at once
};

}  // namespace millrace
