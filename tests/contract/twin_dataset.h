#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/pipeline/dataset.h"
#include "tests/contract/model.h"

namespace millrace::test {

// What is put between the operators of a dataset.
struct Weave {
  bool pending = false;   // stages that answer `kPending` and cut blocks, after about half of the operators
  bool prefetch = false;  // `prefetch`, which changes nothing but time, after about half of the operators
  uint64_t seed = 0;      // of the places, moments and cuts
};

// A dataset beside its model and the code that builds it. The methods are those of `Dataset`, and each does to the
// model what it does to the dataset; the functions of maps and filters are those of functions.h.
class TwinDataset {
 public:
  static TwinDataset range(int64_t start, int64_t stop, int64_t step, const Weave& weave = {},
                           const std::string& feature = "value");
  // The numbers below `count`, from a folder that they were saved to.
  static TwinDataset load(int64_t count, const Weave& weave = {});
  // `count` elements of features of all types, lengths that vary among them.
  static TwinDataset rows(int64_t count, const Weave& weave = {});
  // Files of ShardFiles, by name.
  static TwinDataset tfrecord(const std::vector<std::string>& names, const TfrecordOptions& options,
                              const Weave& weave = {});
  // Files of TextFiles, by name.
  static TwinDataset files(const std::vector<std::string>& names, FilesOptions options, const Weave& weave);
  static TwinDataset text_lines(const std::vector<std::string>& names, FileReadOptions options,
                                const Weave& weave = {});
  static TwinDataset fixed_length_records(const std::vector<std::string>& names, const FileReadOptions& options,
                                          const Weave& weave = {});
  static TwinDataset csv(const std::vector<std::string>& names, const FileReadOptions& options,
                         const Weave& weave = {});
  // Of `some_rows`.
  static TwinDataset from_generator(int64_t count, GeneratorRuns::Rule rule, const Weave& weave = {});
  // Those of them that have indexes.
  static TwinDataset global_shuffle(const std::vector<std::string>& names, const GlobalShuffleOptions& options,
                                    const Weave& weave = {});
  static TwinDataset interleave(const std::vector<TwinDataset>& inputs, const InterleaveOptions& options,
                                const Weave& weave = {});
  static TwinDataset concatenate(const std::vector<TwinDataset>& inputs, const Weave& weave = {});
  static TwinDataset flat_map(const std::vector<TwinDataset>& inputs, const Weave& weave = {});
  static TwinDataset zip(const std::vector<TwinDataset>& inputs, const Weave& weave = {});
  static TwinDataset choose_from_datasets(const std::vector<TwinDataset>& inputs, const TwinDataset& choices,
                                          bool stop_on_empty, const Weave& weave = {});
  static TwinDataset sample_from_datasets(const std::vector<TwinDataset>& inputs, const SampleOptions& options,
                                          const Weave& weave = {});

  // This one with an operator after it; `code`: of the call. What the methods below do, for those that only the table
  // draws, and that change no fact.
  [[nodiscard]] TwinDataset then(const std::string& name, const Dataset& dataset, Model model,
                                 const std::string& code) const;

  // Features of shards by name: of `id`, `tokens`, `tokens32` (the tokens as int32), `mask`, `weight` (missing in
  // some), `weight_or_half`, `name`, `pixels`, `tensor`, and of varying length `words`, `rows` (the tokens in ragged
  // rows), `pairs`.
  [[nodiscard]] TwinDataset parse_example(const std::vector<std::string>& features) const;
  // The same features as a context, and the feature list `steps`.
  [[nodiscard]] TwinDataset parse_sequence_example(const std::vector<std::string>& context) const;
  // On `pixels` and `tensor`.
  [[nodiscard]] TwinDataset decode_raw(bool as_uint8 = false) const;
  [[nodiscard]] TwinDataset parse_tensor() const;
  [[nodiscard]] TwinDataset map_number_rows() const;
  [[nodiscard]] TwinDataset map_span_rows() const;
  [[nodiscard]] TwinDataset map_image_rows() const;
  // `map(picture_rows())`, and what decodes it.
  [[nodiscard]] TwinDataset decode_image(const DecodeImageOptions& options) const;
  [[nodiscard]] TwinDataset map_copied_records() const;
  [[nodiscard]] TwinDataset map_fail_rows(int64_t divisor, int64_t remainder) const;
  [[nodiscard]] TwinDataset map_negate_blocks(const std::string& feature) const;
  [[nodiscard]] TwinDataset add(const std::string& feature, int64_t k) const;
  [[nodiscard]] TwinDataset multiply(const std::string& feature, int64_t k) const;
  [[nodiscard]] TwinDataset modulo(const std::string& feature, int64_t k) const;
  [[nodiscard]] TwinDataset cast(const std::string& feature, DType to) const;
  [[nodiscard]] TwinDataset select(const std::vector<std::string>& features) const;
  [[nodiscard]] TwinDataset drop(const std::vector<std::string>& features) const;
  // With 5 and -2 for on and off, of float32 5.5 and -2.
  [[nodiscard]] TwinDataset one_hot(const std::string& feature, int64_t depth, DType dtype) const;
  // With `marks`: 7 where something was left out, in a feature of bytes "cut".
  [[nodiscard]] TwinDataset truncate(const std::vector<std::string>& features, int64_t head, int64_t tail,
                                     bool marks) const;
  [[nodiscard]] TwinDataset truncate_pair(const std::string& first, const std::string& second, int64_t length) const;
  [[nodiscard]] TwinDataset filter_rows(int64_t divisor, int64_t remainder) const;
  [[nodiscard]] TwinDataset filter_blocks(int64_t divisor, int64_t remainder) const;
  [[nodiscard]] TwinDataset assert_cardinality(int64_t count) const;
  [[nodiscard]] TwinDataset cache() const;
  // In a folder that is new with each call, so that some runs of the dataset write it and others read it.
  [[nodiscard]] TwinDataset cache_on_disk() const;
  [[nodiscard]] TwinDataset snapshot() const;
  [[nodiscard]] TwinDataset flat_map_few_numbers() const;
  [[nodiscard]] TwinDataset interleave_few_numbers(size_t cycle_length, size_t block_length) const;
  // Until the digest of an element modulo `divisor` is `remainder`.
  [[nodiscard]] TwinDataset take_while_rows(int64_t divisor, int64_t remainder) const;
  [[nodiscard]] TwinDataset scan_add_up_rows(int64_t divisor, int64_t remainder) const;
  [[nodiscard]] TwinDataset unique(const std::string& feature) const;
  // `initial`: how often classes come in, or empty.
  [[nodiscard]] TwinDataset rejection_resample(const std::string& feature, const std::vector<double>& target,
                                               const std::vector<double>& initial, uint64_t seed) const;
  [[nodiscard]] TwinDataset take(int64_t count) const;
  [[nodiscard]] TwinDataset skip(int64_t count) const;
  [[nodiscard]] TwinDataset shard(int64_t num_shards, int64_t index) const;
  [[nodiscard]] TwinDataset repeat(int64_t count) const;
  [[nodiscard]] TwinDataset shuffle(int64_t buffer_size, const ShuffleOptions& options) const;
  [[nodiscard]] TwinDataset ignore_errors() const;
  [[nodiscard]] TwinDataset batch(int64_t size, bool drop_remainder) const;
  [[nodiscard]] TwinDataset padded_batch(int64_t size, bool drop_remainder, PadLength length,
                                         std::optional<int64_t> value) const;
  [[nodiscard]] TwinDataset ragged_batch(int64_t size, bool drop_remainder) const;
  [[nodiscard]] TwinDataset unbatch() const;
  [[nodiscard]] TwinDataset rebatch(int64_t size, bool drop_remainder) const;
  // Without `value`: zeros.
  [[nodiscard]] TwinDataset bucket_by_sequence_length(const std::vector<std::string>& features,
                                                      const std::vector<int64_t>& boundaries,
                                                      const std::vector<int64_t>& batch_sizes, bool pad_to_boundary,
                                                      bool drop_remainder, PadLength length,
                                                      std::optional<int64_t> value) const;
  // By `digest_modulo(divisor)`; without a size, by `two_and_key()`.
  [[nodiscard]] TwinDataset group_by_window(int64_t divisor, std::optional<int64_t> window_size,
                                            const BatchingOptions& batches) const;
  [[nodiscard]] TwinDataset window(int64_t size, int64_t shift, int64_t stride, const BatchingOptions& batches) const;
  [[nodiscard]] TwinDataset pack(int64_t length, int64_t look_ahead, LongSequences long_sequences,
                                 const std::vector<std::string>& features) const;
  // On `tokens`, with `mask` where that is there.
  [[nodiscard]] TwinDataset mask_tokens(double probability, uint64_t seed) const;
  // The same of whole words, where `starts` says which ids start one: the feature of this name, or, when it is empty,
  // the even ids; and of spans of them.
  [[nodiscard]] TwinDataset mask_words(double probability, uint64_t seed, const std::string& starts) const;
  [[nodiscard]] TwinDataset mask_spans(double probability, uint64_t seed, bool of_words, double stop,
                                       int64_t max_length) const;
  // On `tokens`; sentinels are from 999 down, `num_sentinels` of them.
  [[nodiscard]] TwinDataset corrupt_spans(double noise_density, double mean_span_length, int64_t num_sentinels,
                                          bool with_end, uint64_t seed) const;
  // On features of `map_image_rows`.
  [[nodiscard]] TwinDataset augment_images(const AugmentImagesOptions& options) const;
  // On one of them, with what model.h says of sizes.
  [[nodiscard]] TwinDataset resize(const ResizeOptions& options) const;
  [[nodiscard]] TwinDataset crop(const CropOptions& options) const;
  [[nodiscard]] TwinDataset pad(const PadOptions& options) const;
  [[nodiscard]] TwinDataset normalize(const NormalizeOptions& options) const;
  [[nodiscard]] TwinDataset mixup(const std::vector<std::string>& features, double alpha, double probability,
                                  uint64_t seed) const;
  [[nodiscard]] TwinDataset cutmix(const std::string& image, const std::vector<std::string>& labels, double alpha,
                                   double probability, uint64_t seed) const;
  [[nodiscard]] TwinDataset prefetch(int64_t buffer_size) const;

  const Dataset& dataset() const { return dataset_; }
  const Schema& schema() const { return dataset_.schema(); }
  const Model& model() const { return model_; }
  // C++ that builds the dataset, with what model.h's neighbours declare.
  const std::string& code() const { return code_; }

  // Facts that decide what may follow, and what is counted.
  bool infinite() const { return most_ < 0; }
  // No more elements than this; negative: infinite.
  int64_t most() const { return most_; }
  // The highest and the lowest number of dimensions of a feature.
  size_t rank() const;
  size_t lowest_rank() const;
  // Whether a feature is ragged.
  bool is_ragged() const;
  // Features of this type or, without one, of numbers.
  [[nodiscard]] std::vector<std::string> features_of(std::optional<DType> dtype) const;
  // Names of all operators in it, and of neighbours, the one before first.
  const std::vector<std::string>& operators() const { return operators_; }
  const std::vector<std::pair<std::string, std::string>>& pairs() const { return pairs_; }
  bool reads_shards() const { return reads_shards_; }
  bool reads_compressed_shards() const { return reads_compressed_shards_; }
  bool has(const std::string& name) const;
  // It is or was infinite: after a take there may be endless errors, which do not count.
  bool was_infinite() const { return was_infinite_; }

 private:
  TwinDataset(Dataset dataset, Model model, std::string code, const Weave& weave)
      : dataset_(std::move(dataset)), model_(std::move(model)), code_(std::move(code)), weave_(weave) {}
  // Of TextFiles, read by `name`.
  static TwinDataset of_text_files(const std::string& name, const std::string& format, const Dataset& dataset,
                                   const std::vector<std::string>& names, const FileReadOptions& options,
                                   const Weave& weave);
  // The model of parsing; with the feature list or without.
  Model parsed_model(const std::vector<std::string>& names, bool with_steps) const;
  TwinDataset arithmetic(const std::string& name, const std::string& feature, int64_t k, Dataset dataset,
                         int64_t (*calculate)(int64_t x, int64_t k)) const;
  // An operator that batches.
  TwinDataset gather(const std::string& name, const Dataset& dataset, const Model& input, int64_t size,
                     bool drop_remainder) const;
  TwinDataset mask(MaskTokensOptions options, const std::string& more_code) const;
  void join(const std::string& name);
  // `twin` with what `inputs` say of themselves; the operator that joins them is `name`.
  static TwinDataset of_inputs(const std::string& name, TwinDataset twin, const std::vector<TwinDataset>& inputs);
  size_t column(const std::string& feature) const { return static_cast<size_t>(schema().column(feature)); }

  Dataset dataset_;
  Model model_;
  std::string code_;
  Weave weave_;
  int64_t most_ = 0;
  uint64_t num_shuffles_ = 0;  // on the way with the most
  uint64_t num_masks_ = 0;
  uint64_t num_corruptions_ = 0;
  uint64_t num_samples_ = 0;
  uint64_t num_resamples_ = 0;
  uint64_t num_augments_ = 0;
  uint64_t num_crops_ = 0;
  uint64_t num_decoded_ = 0;
  uint64_t num_mixups_ = 0;
  uint64_t num_cutmixes_ = 0;
  bool was_infinite_ = false;
  bool reads_shards_ = false;
  bool reads_compressed_shards_ = false;
  std::vector<std::string> operators_;
  std::vector<std::pair<std::string, std::string>> pairs_;
};

}  // namespace millrace::test
