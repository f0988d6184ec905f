#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// Elements whose features have fixed shapes and are no `bytes`, as rows of bytes that a cache keeps in memory: feature
/// by feature its values, integers packed (`pack_integers`). Thread-safe.
///
/// A row has at least an eighth of the bytes of its values: stages cut blocks by the bytes of rows, and a block may not
/// become any number of times as large when its rows are decoded.
class PackedRowCodec {
 public:
  explicit PackedRowCodec(const Schema& schema);

  /// What a row takes at most.
  size_t most_bytes() const { return most_bytes_; }
  /// Writes the row of an element, at most `most_bytes`. Returns how many.
  size_t encode(const Block& block, size_t element, std::byte* out) const;
  /// Writes the values of each feature to its place, and moves the place after them. `next`: a row that is decoded
  /// soon, or empty; its memory is asked for meanwhile.
  void decode(std::string_view row, std::string_view next, std::span<std::byte*> places) const;
  /// Writes zeros for `rows` rows, and moves the places after them.
  void write_zeros(size_t rows, std::span<std::byte*> places) const;

 private:
  struct Feature {
    DType dtype;
    size_t num_values;
    size_t bytes() const { return num_values * size_of(dtype); }
  };

  std::vector<Feature> features_;
  size_t least_bytes_ = 0;
  size_t most_bytes_ = 0;
};

}  // namespace millrace
