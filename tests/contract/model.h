#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/batch/padded_batch.h"
#include "millrace/ops/combine/sample_from_datasets.h"
#include "millrace/ops/features/one_hot.h"
#include "millrace/ops/flow/rejection_resample.h"
#include "millrace/ops/flow/scan.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/images/augment_images.h"
#include "millrace/ops/images/crop.h"
#include "millrace/ops/images/cutmix.h"
#include "millrace/ops/images/decode_image.h"
#include "millrace/ops/images/mixup.h"
#include "millrace/ops/images/normalize.h"
#include "millrace/ops/images/pad.h"
#include "millrace/ops/images/resize.h"
#include "millrace/ops/tokens/corrupt_spans.h"
#include "millrace/ops/tokens/mask_tokens.h"

namespace millrace::test {

// The operators as their descriptions say them: one element after the other, in plain C++, without blocks, threads,
// buffers or state that could be saved. What a pipeline gives is compared with what these give.

// The shape of a value; where it is ragged, that of each of its rows.
struct ModelShape {
  Shape shape;  // when ragged: the number of rows, then kRagged
  std::vector<ModelShape> rows;

  bool is_ragged() const { return shape.size() > 1 && shape[1] == kRagged; }
  size_t size() const;
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// The value of one feature of one element.
struct ModelValue {
  DType dtype = DType::kInt64;
  Shape shape;
  std::vector<ModelShape> rows;   // when ragged, as in ModelShape
  std::vector<int64_t> integers;  // kInt32, kInt64
  std::vector<float> floats;
  std::vector<std::string> bytes;

  size_t size() const { return integers.size() + floats.size() + bytes.size(); }
  void append(const ModelValue& other);
  // Leaves 0 of what it has along its first dimension.
  void take_rows_away();
  // `count` of the values, with this shape.
  ModelValue part(size_t first, size_t count, const ModelShape& of) const;
  friend bool operator==(const ModelValue&, const ModelValue&) = default;
};

[[nodiscard]] ModelValue integers(Shape shape, std::vector<int64_t> values, DType dtype = DType::kInt64);
[[nodiscard]] ModelValue floats(Shape shape, std::vector<float> values);
[[nodiscard]] ModelValue bytes(Shape shape, std::vector<std::string> values);

struct ModelElement {
  std::vector<ModelValue> values;  // by column; empty for an error
  std::optional<ErrorCode> error;  // it is one
  bool is_note = false;            // no error but the note that a record was left out: nobody loses anything to it
  int64_t epoch = 0;
  int64_t rows = 1;

  void fail(ErrorCode code) {
    error = code;
    values.clear();
  }
};

// As `print_element` writes the element of a block; of an error only its code.
[[nodiscard]] std::string print(const Schema& schema, const ModelElement& element);

// One run through elements: the next one, or nothing at the end and ever after.
using ModelStream = std::function<std::optional<ModelElement>()>;
// A dataset: a fresh run for each iteration.
using Model = std::function<ModelStream(const Iteration&)>;

[[nodiscard]] Model model_of_elements(std::vector<ModelElement> elements);
[[nodiscard]] Model model_of_range(int64_t start, int64_t stop, int64_t step);
[[nodiscard]] Model model_of_interleave(std::vector<Model> inputs, size_t cycle_length, size_t block_length);
// `make`: the dataset of an element; without one the function throws.
[[nodiscard]] Model model_of_flat_map(Model input, std::function<std::optional<Model>(const ModelElement&)> make);
// The same with `cycle_length` of them in turn.
[[nodiscard]] Model model_of_interleave_function(Model input,
                                                 std::function<std::optional<Model>(const ModelElement&)> make,
                                                 size_t cycle_length, size_t block_length);
[[nodiscard]] Model model_of_concatenate(std::vector<Model> inputs);
[[nodiscard]] Model model_of_zip(std::vector<Model> inputs);
// `choices`: of one int64.
[[nodiscard]] Model model_of_choose(std::vector<Model> inputs, Model choices, bool stop_on_empty);
[[nodiscard]] Model model_of_sample(std::vector<Model> inputs, SampleOptions options, uint64_t occurrence);
// Records of shards; `shuffled`: the seed that draws the order of the shards.
[[nodiscard]] Model model_of_shards(std::vector<Model> shards, size_t cycle_length, size_t block_length,
                                    std::optional<uint64_t> shuffled);

// Records of all shards in the order of a permutation.
[[nodiscard]] Model model_of_global_shuffle(std::vector<Model> shards, uint64_t seed, bool reshuffle_each_iteration);

// Leaves out what is damaged, up to `max_records` in an epoch.
[[nodiscard]] Model model_of_skipped_damage(Model shards, std::optional<int64_t> max_records);

[[nodiscard]] Model model_of_cache(Model input);
[[nodiscard]] Model model_of_assert_cardinality(Model input, int64_t count);
[[nodiscard]] Model model_of_take_while(Model input, std::function<bool(const ModelElement&)> keep);
// `column`: where the number goes; after the last: a new one.
[[nodiscard]] Model model_of_enumerate(Model input, int64_t start, size_t column);
// `change`: as a scan's function, with the numbers that it carries.
[[nodiscard]] Model model_of_scan(Model input, ScanNumbers initial,
                                  std::function<void(ScanNumbers&, ModelElement&)> change);
[[nodiscard]] Model model_of_unique(Model input, size_t column);
[[nodiscard]] Model model_of_rejection_resample(Model input, RejectionResampleOptions options, uint64_t occurrence,
                                                size_t column);
[[nodiscard]] Model model_of_take(Model input, int64_t count);
[[nodiscard]] Model model_of_skip(Model input, int64_t count);
[[nodiscard]] Model model_of_shard(Model input, int64_t num_shards, int64_t index);
[[nodiscard]] Model model_of_repeat(Model input, int64_t count);
[[nodiscard]] Model model_of_shuffle(Model input, int64_t buffer_size, ShuffleOptions options, uint64_t occurrence);
[[nodiscard]] Model model_of_ignore_errors(Model input);
// Notes are errors when there were more than so many.
[[nodiscard]] Model model_of_damage_budget(Model input, int64_t max_records);
// Elements for which `keep` says yes, and errors.
[[nodiscard]] Model model_of_filter(Model input, std::function<bool(const ModelElement&)> keep);
// Changes every element that is no error; the number is that of the element's first row.
[[nodiscard]] Model model_of_map(Model input, std::function<void(ModelElement&, int64_t ordinal)> change);
// The same, with the iteration too.
[[nodiscard]] Model model_of_map(Model input,
                                 std::function<void(ModelElement&, int64_t ordinal, const Iteration&)> change);
[[nodiscard]] Model model_of_one_hot(Model input, size_t column, int64_t depth, OneHotOptions options);
// The columns of the input with these numbers, in this order.
[[nodiscard]] Model model_of_columns(Model input, std::vector<size_t> columns);
// Vectors cut to head and tail, and the marker 7 or "cut".
[[nodiscard]] Model model_of_truncate(Model input, std::vector<size_t> columns, int64_t head, int64_t tail, bool marks);
[[nodiscard]] Model model_of_truncate_pair(Model input, size_t first, size_t second, int64_t length);
// `length` and `value` hold for all features.
[[nodiscard]] Model model_of_padded_batch(Model input, const Schema& schema, int64_t size, bool drop_remainder,
                                          PadLength length, std::optional<int64_t> value);
// `ragged`: by feature, whether rows of any lengths become one that is.
[[nodiscard]] Model model_of_batch(Model input, int64_t size, bool drop_remainder, std::vector<bool> ragged);
[[nodiscard]] Model model_of_unbatch(Model input);
// What makes a batch of rows: of one shape, or `ragged`; padded, and of a feature of `input` that varies in a dimension
// to `varying` there.
using ModelGather = std::function<void(const std::vector<ModelElement>& rows, ModelElement& batch)>;
[[nodiscard]] ModelGather stacking(std::vector<bool> ragged);
[[nodiscard]] ModelGather padding(const Schema& input, PadLength length, std::optional<int64_t> value,
                                  std::optional<int64_t> varying = std::nullopt);
// `size` and `gather` by key.
[[nodiscard]] Model model_of_groups(Model input, std::function<int64_t(const ModelElement&)> key,
                                    std::function<int64_t(int64_t)> size, std::function<bool(int64_t)> drops_remainder,
                                    std::function<ModelGather(int64_t)> gather);
[[nodiscard]] Model model_of_window(Model input, int64_t size, int64_t shift, int64_t stride, bool drop_remainder,
                                    ModelGather gather);
// Packs the columns into rows, and puts -1 after integers, 0.5 after floats.
[[nodiscard]] Model model_of_pack(Model input, int64_t length, size_t look_ahead, bool splits,
                                  std::vector<size_t> columns);
// Columns of square images.
[[nodiscard]] Model model_of_augment_images(Model input, AugmentImagesOptions options, uint64_t occurrence,
                                            std::vector<size_t> columns);
// Of a column of images, with a shorter side of square ones; values are exact where the sizes of images, but for
// `kNearest`, are a power of two of each other.
[[nodiscard]] Model model_of_resize(Model input, size_t column, ResizeOptions options);
// Of a column of pictures, the first. No background where one channel is asked for.
[[nodiscard]] Model model_of_decode_image(Model input, DecodeImageOptions options, uint64_t occurrence);
[[nodiscard]] Model model_of_crop(Model input, size_t column, CropOptions options, uint64_t occurrence);
[[nodiscard]] Model model_of_pad(Model input, size_t column, PadOptions options);
[[nodiscard]] Model model_of_normalize(Model input, size_t column, NormalizeOptions options);
[[nodiscard]] Model model_of_mixup(Model input, MixupOptions options, uint64_t occurrence, std::vector<size_t> columns);
[[nodiscard]] Model model_of_cutmix(Model input, CutmixOptions options, uint64_t occurrence, size_t image,
                                    std::vector<size_t> labels);
// Columns of ids, attention and starts of words (-1: none) in the input; labels come last.
[[nodiscard]] Model model_of_mask_tokens(Model input, MaskTokensOptions options, uint64_t occurrence, int ids,
                                         int attention, int starts);

// The column of ids; labels come last.
[[nodiscard]] Model model_of_corrupt_spans(Model input, CorruptSpansOptions options, uint64_t occurrence, int ids);

}  // namespace millrace::test
