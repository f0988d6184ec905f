#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/elements/byte_stream.h"

namespace millrace {

/// Writes elements of blocks of one schema as bytes from which `decode_block` makes a block again: values of all types
/// and shapes, notes of what was left out of damaged shards in their places, epoch, rows per element, and where the
/// rows come from. Elements that are errors have no such form.
///
/// The bytes: a version; the numbers of elements and of rows in each, the epoch; the notes; the origins of the rows;
/// then feature by feature the sizes where shapes vary, the lengths of `bytes` values, and the values as they lie in
/// memory. All but the values are varints. Not for several threads.
class BlockEncoder {
 public:
  explicit BlockEncoder(SchemaPtr schema);

  /// How many elements of `block` from `first` on fit, at least one while the encoder is not full. 0: it is full, or
  /// the elements in it are of another epoch or have another number of rows.
  size_t room_for(const Block& block, size_t first) const;
  /// Appends elements [first, first + count), of which none is an error.
  void append(const Block& block, size_t first, size_t count);
  size_t num_elements() const { return num_elements_; }
  /// Notes among the elements.
  size_t num_notes() const { return num_notes_; }
  /// The bytes of all elements; the encoder is empty again. Valid until it is used again.
  [[nodiscard]] std::string_view finish();

 private:
  struct Feature {
    ByteWriter sizes;    // of the elements, where shapes vary
    ByteWriter lengths;  // of `bytes` values
    ByteWriter values;
  };
  void append_values(size_t feature, const Column& column, size_t first, size_t count);
  void append_no_values(size_t feature);
  void append_origins(const Block& block, size_t first, size_t count);
  size_t byte_size() const;

  const SchemaPtr schema_;
  std::vector<Feature> features_;
  ByteWriter notes_;
  ByteWriter names_;              // of the shards that rows come from
  ByteWriter origins_;            // of the rows
  std::vector<uint32_t> shards_;  // the numbers of `names_`
  std::vector<uint32_t> places_;  // by number: the place in `names_`, from 1; 0: none
  std::shared_ptr<const ShardNames> shard_names_;
  Origin last_origin_;
  size_t num_origins_ = 0;
  size_t num_elements_ = 0;
  size_t num_notes_ = 0;
  int64_t rows_per_element_ = 1;
  int64_t epoch_ = 0;
  ByteWriter whole_;
};

/// The elements that a BlockEncoder wrote for a schema. `bytes` lie in `holder`, which `bytes` features keep. `names`:
/// where the shards of origins are named; null: the rows have none. Throws `kParse` when the bytes are not of such
/// elements.
[[nodiscard]] Block decode_block(std::string_view bytes, const Ref<Resource>& holder, const SchemaPtr& schema,
                                 BufferPool& pool, const std::shared_ptr<ShardNames>& names);

}  // namespace millrace
