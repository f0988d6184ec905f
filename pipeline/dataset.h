#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/batch/bucket_by_sequence_length.h"
#include "millrace/ops/batch/group_by_window.h"
#include "millrace/ops/batch/padded_batch.h"
#include "millrace/ops/batch/ragged_batch.h"
#include "millrace/ops/batch/window.h"
#include "millrace/ops/combine/choose_from_datasets.h"
#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/combine/sample_from_datasets.h"
#include "millrace/ops/features/arithmetic.h"
#include "millrace/ops/features/cast.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/features/one_hot.h"
#include "millrace/ops/flow/filter.h"
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
#include "millrace/ops/keep/cache.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/parse/decode_raw.h"
#include "millrace/ops/parse/parse_csv.h"
#include "millrace/ops/parse/parse_example.h"
#include "millrace/ops/parse/parse_tensor.h"
#include "millrace/ops/sources/csv_records.h"
#include "millrace/ops/sources/files.h"
#include "millrace/ops/sources/fixed_length_records.h"
#include "millrace/ops/sources/from_generator.h"
#include "millrace/ops/sources/global_shuffle.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/ops/sources/tfrecord.h"
#include "millrace/ops/tokens/corrupt_spans.h"
#include "millrace/ops/tokens/mask_tokens.h"
#include "millrace/ops/tokens/pack.h"
#include "millrace/ops/tokens/truncate.h"
#include "millrace/ops/tokens/truncate_pair.h"
#include "millrace/pipeline/dataset_check.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/plan/plan.h"
#include "millrace/pipeline/save.h"

namespace millrace {

class Dataset;

/// A function of yours that makes a dataset of an element. It must be thread safe and a pure function of the element,
/// which is there only during the call. What it makes runs without rewrites and segments of its own, and its shards are
/// no part of what a state is checked against.
struct DatasetFunction {
  static constexpr std::string_view kKind = "dataset function";
  std::string name = {};                ///< appears in errors and in `explain()`
  std::vector<FeatureSpec> gives = {};  ///< the features of every dataset that it makes, `kVaries` where sizes differ
  std::function<Dataset(const RowView&)> make = {};
};

/// An immutable description of a stream of elements: a source and the operators after it. Each method returns a new
/// dataset and throws `kInvalidArgument` at once when an argument cannot work. Cheap to copy; any thread.
///
///     auto train = Dataset::tfrecord(Shards::glob("data/train-*.tfrecord"), {.cycle_length = 16})
///                      .parse_example({fixed_len("input_ids", {512}, DType::kInt64).as(DType::kInt32)})
///                      .shuffle(1 << 16, {.seed = 42})
///                      .repeat()
///                      .batch(128, {.drop_remainder = true})
///                      .prefetch(2);
///     Pipeline pipeline = train.start({.threads = 4});
///     while (std::optional<Batch> batch = pipeline.next()) step(batch->values<int32_t>("input_ids"));
class Dataset {
 public:
  /// int64 scalars; see RangeOperator.
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1, std::string feature = "value");
  /// The raw records of TFRecord shards; see TfrecordOperator.
  static Dataset tfrecord(const Shards& shards, const TfrecordOptions& options = {});
  /// The same records in a uniformly random order, of shards that `dataset_index` has indexed; see
  /// GlobalShuffleOperator.
  static Dataset global_shuffle(const Shards& shards, const GlobalShuffleOptions& options = {});
  /// Whole files, each an element: pictures, a folder a class; see FilesOperator.
  static Dataset files(const Shards& files, const FilesOptions& options = {});
  /// The lines of text files; see TextLinesOperator.
  static Dataset text_lines(const Shards& shards, const FileReadOptions& options = {});
  /// The records of files in which each has the same length; see FixedLengthRecordsOperator.
  static Dataset fixed_length_records(const Shards& shards, const FixedLengthFormat& format,
                                      const FileReadOptions& options = {});
  /// The records of CSV files, not split yet; see CsvRecordsOperator.
  static Dataset csv_records(const Shards& shards, const CsvFormat& format = {}, const FileReadOptions& options = {});
  /// The columns of CSV files; see CsvRecordsOperator and ParseCsvOperator, of which it is made.
  static Dataset csv(const Shards& shards, std::vector<CsvColumn> columns, const CsvFormat& format = {},
                     const FileReadOptions& options = {});
  /// Elements from memory; see RowsOperator.
  static Dataset rows(std::vector<MemoryFeature> features);
  /// What a function of yours makes up, with a rule how it is resumed; see FromGeneratorOperator.
  static Dataset from_generator(Generator generator);
  /// What `save` wrote to a folder of this machine; see LoadOperator. Throws `kInvalidArgument` when it holds no
  /// elements, and when its description is damaged `kParse`.
  static Dataset load(const std::string& directory);
  /// The same of a folder in another storage, which its pipelines must have: `StartOptions::storage`.
  static Dataset load(Storage& storage, const std::string& directory);
  /// Takes elements of the inputs in turn; see InterleaveOperator. All inputs must have the same features.
  static Dataset interleave(const std::vector<Dataset>& inputs, const InterleaveOptions& options = {});
  /// The inputs one after the other; see ConcatenateOperator.
  static Dataset concatenate(const std::vector<Dataset>& inputs);
  /// The same, with the next inputs read ahead; see FlatMapInputsOperator.
  static Dataset flat_map(const std::vector<Dataset>& inputs);
  /// An element of each input side by side; see ZipOperator. No two inputs may have a feature of one name.
  static Dataset zip(const std::vector<Dataset>& inputs);
  /// Each element from the input whose number `choices` says; see ChooseFromDatasetsOperator.
  static Dataset choose_from_datasets(const std::vector<Dataset>& inputs, const Dataset& choices,
                                      const ChooseOptions& options = {});
  /// Each element from an input drawn at random; see SampleFromDatasetsOperator.
  static Dataset sample_from_datasets(const std::vector<Dataset>& inputs, const SampleOptions& options = {});
  /// A dataset of any operator on top of `inputs`: how an operator of your own joins.
  static Dataset from_operator(const std::vector<Dataset>& inputs, MakeOperator make);

  /// Raw `tensorflow.Example` records into features; see ParseExampleOperator.
  [[nodiscard]] Dataset parse_example(std::vector<FeatureDescription> features) const;
  /// Raw `tensorflow.SequenceExample` records into features; see ParseSequenceExampleOperator.
  [[nodiscard]] Dataset parse_sequence_example(std::vector<FeatureDescription> context,
                                               std::vector<FeatureDescription> feature_lists) const;
  /// The fields of CSV records as features; see ParseCsvOperator.
  [[nodiscard]] Dataset parse_csv(std::vector<CsvColumn> columns, const CsvFormat& format = {},
                                  const DamagePolicy& damage = {}) const;
  /// Pixels of JPEG and PNG in the place of their bytes; see DecodeImageOperator.
  [[nodiscard]] Dataset decode_image(const std::string& feature, const DecodeImageOptions& options = {}) const;
  /// The bytes of a feature as numbers; see DecodeRawOperator.
  [[nodiscard]] Dataset decode_raw(const std::string& feature, RawType type,
                                   const DecodeRawOptions& options = {}) const;
  /// Serialized `tensorflow.TensorProto` messages as tensors; see ParseTensorOperator.
  [[nodiscard]] Dataset parse_tensor(const std::string& feature, DType dtype, const Shape& shape,
                                     const ParseTensorOptions& options = {}) const;
  /// A function of yours on each element, or on blocks of elements.
  [[nodiscard]] Dataset map(RowFunction function) const;
  [[nodiscard]] Dataset map(const BlockFunction& function) const;
  /// A calculation with a constant on every number of a feature; `k` is an int64 or a double.
  [[nodiscard]] Dataset add(const std::string& feature, int64_t k) const;
  [[nodiscard]] Dataset add(const std::string& feature, int k) const { return add(feature, int64_t{k}); }
  [[nodiscard]] Dataset add(const std::string& feature, double k) const;
  [[nodiscard]] Dataset multiply(const std::string& feature, int64_t k) const;
  [[nodiscard]] Dataset multiply(const std::string& feature, int k) const { return multiply(feature, int64_t{k}); }
  [[nodiscard]] Dataset multiply(const std::string& feature, double k) const;
  /// The floored remainder: it has the sign of `k`.
  [[nodiscard]] Dataset modulo(const std::string& feature, int64_t k) const;
  /// Another number type for a feature; see CastOperator.
  [[nodiscard]] Dataset cast(const std::string& feature, DType to) const;
  /// Other names for features, from old to new; see RenameOperator.
  [[nodiscard]] Dataset rename(const std::map<std::string, std::string>& names) const;
  /// These features alone, in this order; see SelectOperator.
  [[nodiscard]] Dataset select(const std::vector<std::string>& features) const;
  /// All features but these; see DropOperator.
  [[nodiscard]] Dataset drop(const std::vector<std::string>& features) const;
  /// A vector with one value that is on in the place of each number; see OneHotOperator.
  [[nodiscard]] Dataset one_hot(const std::string& feature, int64_t depth, const OneHotOptions& options = {}) const;
  /// Head, tail or both of long sequences; see TruncateOperator.
  [[nodiscard]] Dataset truncate(const TruncateOptions& options) const;
  /// Two sequences to a length of both together; see TruncatePairOperator.
  [[nodiscard]] Dataset truncate_pair(const TruncatePairOptions& options) const;
  /// The elements for which the predicate is true.
  [[nodiscard]] Dataset filter(RowPredicate predicate) const;
  [[nodiscard]] Dataset filter(BlockPredicate predicate) const;
  /// The elements of a dataset that your function makes of each element; see FlatMapOperator.
  [[nodiscard]] Dataset flat_map(const DatasetFunction& function) const;
  /// The same with several of the datasets in turn; see InterleaveFunctionOperator.
  [[nodiscard]] Dataset interleave(const DatasetFunction& function, const InterleaveOptions& options = {}) const;
  /// The elements before the first for which the predicate is false.
  [[nodiscard]] Dataset take_while(RowPredicate predicate) const;
  /// A function of yours that carries numbers from element to element; see ScanOperator.
  [[nodiscard]] Dataset scan(ScanFunction function) const;
  /// The number of each element, from `start` on, as the int64 scalar `feature`; see EnumerateOperator.
  [[nodiscard]] Dataset enumerate(int64_t start = 0, const std::string& feature = "index") const;
  /// Of all elements with one value of a feature the first; see UniqueOperator for memory and resuming.
  [[nodiscard]] Dataset unique(const std::string& feature) const;
  /// Drops elements so that their classes are distributed as asked for; see RejectionResampleOperator.
  [[nodiscard]] Dataset rejection_resample(const RejectionResampleOptions& options) const;
  /// The first `count` elements; negative: all.
  [[nodiscard]] Dataset take(int64_t count) const;
  /// All but the first `count` elements; negative: none.
  [[nodiscard]] Dataset skip(int64_t count) const;
  /// The elements whose number modulo `num_shards` is `index`.
  [[nodiscard]] Dataset shard(int64_t num_shards, int64_t index) const;
  /// Everything before, `count` times; negative: forever.
  [[nodiscard]] Dataset repeat(int64_t count = -1) const;
  /// A random order, as by picking from a buffer of `buffer_size` rows; see ShuffleOperator.
  [[nodiscard]] Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;
  /// Everything before, which is to be `count` elements: another number is an error; see AssertCardinalityOperator.
  [[nodiscard]] Dataset assert_cardinality(int64_t count) const;
  /// Errors of elements before are dropped.
  [[nodiscard]] Dataset ignore_errors() const;
  [[nodiscard]] Dataset damage_budget(const DamagePolicy& policy) const;
  /// Gathers `size` elements into one; see BatchOperator.
  [[nodiscard]] Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  /// The same with rows of unlike lengths; see PaddedBatchOperator.
  [[nodiscard]] Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const;
  /// The same without padding: ragged where lengths differ; see RaggedBatchOperator.
  [[nodiscard]] Dataset ragged_batch(int64_t size, const RaggedBatchOptions& options = {}) const;
  /// The rows of elements as elements; see UnbatchOperator.
  [[nodiscard]] Dataset unbatch() const;
  /// Elements of `size` rows from those of other sizes; see RebatchOperator.
  [[nodiscard]] Dataset rebatch(int64_t size, const BatchOptions& options = {}) const;
  /// Batches rows of similar lengths together; see BucketBySequenceLengthOperator.
  [[nodiscard]] Dataset bucket_by_sequence_length(std::vector<std::string> features, std::vector<int64_t> boundaries,
                                                  std::vector<int64_t> batch_sizes, BucketOptions options = {}) const;
  /// Batches elements with equal keys; see GroupByWindowOperator.
  [[nodiscard]] Dataset group_by_window(RowKey key, WindowSize window_size,
                                        const BatchingOptions& batches = BatchOptions{}) const;
  /// Batches of neighbouring elements that may overlap; see WindowOperator.
  [[nodiscard]] Dataset window(int64_t size, const WindowOptions& options = {},
                               const BatchingOptions& batches = BatchOptions{}) const;
  /// Several short sequences in each row of `length` values; see PackOperator.
  [[nodiscard]] Dataset pack(int64_t length, const PackOptions& options = {}) const;
  /// Masks tokens for a masked language model; see MaskTokensOperator.
  [[nodiscard]] Dataset mask_tokens(const MaskTokensOptions& options) const;
  /// Leaves out spans of tokens for a text-to-text model; see CorruptSpansOperator.
  [[nodiscard]] Dataset corrupt_spans(const CorruptSpansOptions& options) const;
  /// Turns, flips, brightens images at random, pairs of them alike; see AugmentImagesOperator.
  [[nodiscard]] Dataset augment_images(const AugmentImagesOptions& options) const;
  /// Gives images another size; see ResizeOperator.
  [[nodiscard]] Dataset resize(const ResizeOptions& options) const;
  /// Keeps a window of images, in the centre or at random, pairs of them alike; see CropOperator.
  [[nodiscard]] Dataset crop(const CropOptions& options) const;
  /// Pads images to a size; see PadOperator.
  [[nodiscard]] Dataset pad(const PadOptions& options) const;
  /// Images as float32, less the mean, over the standard deviation of their channels; see NormalizeOperator.
  [[nodiscard]] Dataset normalize(const NormalizeOptions& options) const;
  /// Mixes the rows of batches with each other; see MixupOperator.
  [[nodiscard]] Dataset mixup(const MixupOptions& options) const;
  /// Pastes boxes of images of a batch into each other; see CutmixOperator.
  [[nodiscard]] Dataset cutmix(const CutmixOptions& options) const;
  /// Keeps everything before, in memory or in a folder, and gives it from there from the second epoch on; see
  /// CacheOperator and FileCacheOperator.
  [[nodiscard]] Dataset cache(const CacheOptions& options = {}) const;
  /// Writes everything before to a folder of `directory` in the first run, and reads it from there in later ones; see
  /// SnapshotOperator.
  [[nodiscard]] Dataset snapshot(const std::string& directory) const;
  /// Lets what is before run ahead by `buffer_size` blocks more than it does anyway; see PrefetchOperator.
  [[nodiscard]] Dataset prefetch(int64_t buffer_size) const;

  /// The features of every element.
  const Schema& schema() const { return *plan_->op->schema(); }
  Cardinality cardinality() const { return plan_cardinality(*plan_); }
  const PlanNodePtr& plan() const { return plan_; }

  /// The operators as written, the rewrites with their reasons, and the segments as they run.
  std::string explain(const StartOptions& options = {}) const;

  /// The operators as written, as a graph in the language of Graphviz: `dot -Tsvg`.
  std::string explain_dot() const { return print_dot(*plan_); }

  /// Reads the first elements and says what the dataset is: spec, cardinality, what becomes of a short last batch, the
  /// different shapes, the share of padding, and which of the things asked for are not so. Before a long run. Throws
  /// `kInvalidArgument`, and the first error of the data.
  [[nodiscard]] CheckReport check(const CheckOptions& options = {}, const StartOptions& start = {}) const;

  /// Runs it to its end and writes its elements to a folder, for `load`. The folder is made where there is none. Until
  /// everything is on the disk it holds what it held before. Throws `kInvalidArgument` for a dataset without an end,
  /// when the folder holds elements and `overwrite` is not set, and when another process writes to it; the first error
  /// of the data; `kIo` when the disk is full. Whoever reads what is replaced reads it to the end.
  SaveReport save(const std::string& directory, const SaveOptions& options = {}) const;

  /// Starts to run it.
  [[nodiscard]] Pipeline start(const StartOptions& options = {}) const;

 private:
  explicit Dataset(PlanNodePtr plan) : plan_(std::move(plan)) {}
  /// `Op` on top of `inputs`, made of their schemas and what is in the arguments, one after the other.
  template <typename Op, typename Of>
  static Dataset made(const std::vector<Dataset>& inputs, Of arguments);
  /// On top of this one.
  template <typename Op, typename Of>
  Dataset then(Of arguments) const;
  /// This dataset as made by a method that was called with these arguments.
  template <typename Of>
  Dataset called(Of arguments) const;

  PlanNodePtr plan_;
};

}  // namespace millrace
