// For every operator each field of its arguments alone: the class that it is described with (ops/description.h) is what
// digests go by, and what it does to the stream.

#include <filesystem>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/ops/batch/rebatch.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/ops/combine/concatenate.h"
#include "millrace/ops/combine/flat_map.h"
#include "millrace/ops/combine/zip.h"
#include "millrace/ops/features/drop.h"
#include "millrace/ops/features/rename.h"
#include "millrace/ops/features/select.h"
#include "millrace/ops/flow/assert_cardinality.h"
#include "millrace/ops/flow/damage_budget.h"
#include "millrace/ops/flow/enumerate.h"
#include "millrace/ops/flow/ignore_errors.h"
#include "millrace/ops/flow/prefetch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shard.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/flow/take_while.h"
#include "millrace/ops/flow/unique.h"
#include "millrace/ops/keep/load.h"
#include "millrace/ops/keep/snapshot.h"
#include "millrace/ops/parse/parse_sequence_example.h"
#include "millrace/ops/sources/text_lines.h"
#include "millrace/pipeline/definition/function_registry.h"
#include "millrace/pipeline/definition/methods.h"
#include "millrace/pipeline/plan/nested_arguments.h"
#include "millrace/pipeline/plan/plan_digest.h"
#include "millrace/pipeline/plan/stream_identity.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"
#include "pipeline/definition/pipeline_def.pb.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/example_messages.h"
#include "tests/support/temporary_folder.h"

namespace millrace::options_test {
namespace {

using Datasets = std::vector<Dataset>;
using test::write_file;

// The paths of all fields, `padding.length`, each with what it changes. Fields of elements of a list are below it.
using Visit = std::function<void(const std::string& path, Effect effect)>;

template <typename T>
void visit_paths(const std::string& prefix, Effect within, const Visit& visit);

template <typename T>
void visit_value(const std::string& path, Effect effect, const Visit& visit) {
  if constexpr (std::is_same_v<T, FeatureDescription>) {
    visit_paths<WrittenFeature>(path + ".", effect, visit);
  } else if constexpr (Described<T>) {
    visit_paths<T>(path + ".", effect, visit);
  } else if constexpr (description::kIsA<std::optional, T> || description::kIsA<std::vector, T>) {
    visit_value<typename T::value_type>(path, effect, visit);
  } else if constexpr (description::kIsA<std::shared_ptr, T>) {
    visit_value<std::remove_const_t<typename T::element_type>>(path, effect, visit);
  } else if constexpr (std::is_same_v<T, MemoryFeature>) {
    visit_paths<FlatFeature>(path + ".", effect, visit);
  } else if constexpr (std::is_same_v<T, std::map<std::string, FeaturePadding>>) {
    visit_paths<FeaturePadding>(path + ".", effect, visit);
  } else if constexpr (std::is_same_v<T, BatchingOptions>) {
    visit(path, effect);
    visit_paths<BatchOptions>(path + ".batch.", effect, visit);
    visit_paths<PaddedBatchOptions>(path + ".padded_batch.", effect, visit);
    visit_paths<RaggedBatchOptions>(path + ".ragged_batch.", effect, visit);
  } else {
    visit(path, effect);
  }
}

template <typename T>
void visit_paths(const std::string& prefix, Effect within, const Visit& visit) {
  description_of<T>().for_each([&]<typename F>(F) {
    using Value = typename F::Value;
    constexpr Effect kEffect = F::kEffect;
    const Effect effect = std::max(within, kEffect);
    if constexpr (F::kForm != Form::kInlined) {
      visit_value<Value>(prefix + std::string(F::kName), effect, visit);
    } else if constexpr (Described<Value>) {
      visit_paths<Value>(prefix, effect, visit);
    } else {
      visit_paths<typename WrittenAs<Value>::Type>(prefix, effect, visit);
    }
  });
}

// The elements of two epochs up to the first error, with the features that they have.
std::string stream_of(const Dataset& dataset) {
  const WorkerLimit workers(2);
  const Dataset epochs = dataset.cardinality().is_infinite() ? dataset.take(20) : dataset.repeat(2);
  std::string text = dataset.schema().to_string();
  try {
    StreamHash hash;
    int64_t elements = 0;
    Pipeline pipeline = epochs.start({.threads = 2});
    try {
      for (; const std::optional<Batch> batch = pipeline.next(); ++elements) hash.add(*batch);
    } catch (const ErrorException& e) {
      text += " then " + std::string(to_string(e.error().code));
    }
    return text + fmt::format(" {} elements {}", elements, hash.hex());
  } catch (const ErrorException& e) {
    return text + " not started: " + e.what();
  }
}

std::vector<uint64_t> state_digest(const Dataset& dataset) {
  std::vector<uint64_t> digests;
  for (const PlanDigest::Operator& op : digest_of(*dataset.plan()).operators) digests.push_back(op.digest);
  return digests;
}

uint64_t folder_digest(const Dataset& dataset) {
  InlineExecutor executor;
  LocalStorage storage(executor);
  return identity_of("options_test", dataset.plan()).digest(storage, {});
}

std::set<std::string>& tested() {
  static std::set<std::string> names;
  return names;
}

// The arguments of a method with which it works, what it works on, and other values of its fields.
template <typename Of>
class Tested {
 public:
  using Change = std::function<void(Of&)>;

  explicit Tested(Of base, Datasets inputs = {}) : base_(std::move(base)), inputs_(std::move(inputs)) {
    tested().insert(std::string(description_of<Of>().name));
  }
  ~Tested() {
    visit_paths<Of>("", Effect::kStream, [&](const std::string& path, Effect effect) {
      const std::string name = fmt::format("{}: {}", description_of<Of>().name, path);
      const bool is_known = known_.erase(path) > 0;
      const auto change = changes_.find(path);
      if (change == changes_.end()) {
        if (!is_known) ADD_FAILURE() << name << ": no second value";
        return;
      }
      try {
        check(name, effect, change->second);
      } catch (const ErrorException& e) {
        ADD_FAILURE() << name << ": " << e.what();
      }
      changes_.erase(change);
    });
    for (const auto& [path, change] : changes_) ADD_FAILURE() << description_of<Of>().name << ": no field " << path;
    for (const std::string& path : known_) ADD_FAILURE() << description_of<Of>().name << ": no field " << path;
  }
  Tested(const Tested&) = delete;
  Tested& operator=(const Tested&) = delete;

  // `before`: what both have otherwise than the base, for the field to do something.
  Tested& with(const std::string& path, Change change, Change before = nullptr) {
    EXPECT_TRUE(changes_.emplace(path, Changed{std::move(change), std::move(before)}).second) << path << " twice";
    return *this;
  }
  // Two values give streams that differ in time, which nothing can show.
  Tested& in_time(const std::string& path, Change change) {
    EXPECT_TRUE(changes_.emplace(path, Changed{std::move(change), nullptr, /*is_seen=*/false}).second)
        << path << " twice";
    return *this;
  }
  // Another value is refused.
  Tested& refused(const std::string& path, const Change& change, const Change& before = nullptr) {
    Of arguments = base_;
    if (before) before(arguments);
    change(arguments);
    EXPECT_THROW(dataset(arguments), ErrorException) << path;
    known_.insert(path);
    return *this;
  }
  // Fields that the same type has in another method, with one test for both but where this one has a change.
  template <typename T>
  Tested& as_elsewhere(const std::string& prefix) {
    visit_paths<T>(prefix, Effect::kStream, [&](const std::string& path, Effect) { known_.insert(path); });
    return *this;
  }

 private:
  struct Changed {
    Change change;
    Change before;
    bool is_seen = true;
  };

  // As a definition makes it, which says the same of what came of it.
  Dataset dataset(const Of& arguments) const {
    def::Step written;
    write_call(ArgumentsOf<Of>(arguments), written);
    def::Step step;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(written.ShortDebugString(), &step));
    Dataset dataset = call_method(step, inputs_);
    def::Step again;
    write_call(*dataset.plan()->arguments, again);
    EXPECT_EQ(again.ShortDebugString(), written.ShortDebugString());
    return dataset;
  }

  void check(const std::string& name, Effect effect, const Changed& changed) const {
    Of arguments = base_;
    if (changed.before) changed.before(arguments);
    const Dataset one = dataset(arguments);
    changed.change(arguments);
    const Dataset other = dataset(arguments);
    EXPECT_EQ(state_digest(one) != state_digest(other), effect == Effect::kStream) << name << ": in states";
    EXPECT_EQ(folder_digest(one) != folder_digest(other), effect != Effect::kSpeed) << name << ": in folders";
    if (!changed.is_seen) return;
    EXPECT_EQ(stream_of(one) != stream_of(other), effect == Effect::kStream) << name << ": in the stream\n"
                                                                             << stream_of(one) << "\n"
                                                                             << stream_of(other);
  }

  Of base_;
  Datasets inputs_;
  std::map<std::string, Changed> changes_;
  std::set<std::string> known_;
};

// A change of a field.
#define WITH(...) [&](auto& a) { __VA_ARGS__; }

template <typename Of, typename Get>
void with_damage(Tested<Of>& of, const std::string& prefix, Get get) {
  const auto skips = [=](auto& a) { get(a).action = DamagePolicy::kSkip; };
  of.with(prefix + "action", skips);
  of.with(
      prefix + "max_records", [=](auto& a) { get(a).max_records = 7; }, skips);
  of.with(
      prefix + "max_bytes", [=](auto& a) { get(a).max_bytes = 7; }, skips);
  of.with(
      prefix + "max_share", [=](auto& a) { get(a).max_share = 0.5; }, skips);
}

template <typename Of, typename Get>
void with_padding(Tested<Of>& of, const std::string& prefix, Get get) {
  of.with(prefix + "length", [=](auto& a) { get(a).length = PadLength::fixed(9); });
  of.with(
      prefix + "value", [=](auto& a) { get(a).value = int64_t{-1}; },
      [=](auto& a) { get(a).length = PadLength::fixed(9); });
  const auto ids = [=](auto& a) { get(a).features["ids"].length = PadLength::fixed(8); };
  of.with(
      prefix + "features.length", [=](auto& a) { get(a).features["ids"].length = PadLength::fixed(9); }, ids);
  of.with(
      prefix + "features.value", [=](auto& a) { get(a).features["ids"].value = int64_t{-1}; }, ids);
  of.with(prefix + "drop_remainder", [=](auto& a) { get(a).drop_remainder = true; });
}

// `of.read` and of tfrecord.
template <typename Of, typename Get>
void with_reading(Tested<Of>& of, const std::string& prefix, Get get) {
  of.with(prefix + "cycle_length", [=](auto& a) { get(a).cycle_length = 2; });
  of.with(
      prefix + "block_length", [=](auto& a) { get(a).block_length = 2; }, [=](auto& a) { get(a).cycle_length = 2; });
  of.with(prefix + "shuffle_shards", [=](auto& a) { get(a).shuffle_shards = true; });
  of.with(
      prefix + "seed", [=](auto& a) { get(a).seed = 3; }, [=](auto& a) { get(a).shuffle_shards = true; });
  of.in_time(prefix + "ordered", [=](auto& a) { get(a).ordered = false; });
  of.with(prefix + "compression", [=](auto& a) { get(a).compression = Compression::kGzip; });
  const auto limit = [=](auto& a) { get(a).max_record_bytes = 2; };
  if constexpr (std::is_same_v<Of, FixedLengthRecordsArguments>) {
    of.refused(prefix + "max_record_bytes", limit);
  } else {
    of.with(prefix + "max_record_bytes", limit);
  }
  with_damage(of, prefix + "damage.", [=](auto& a) -> DamagePolicy& { return get(a).damage; });
}

// Files of all kinds, five shards each, and functions by their names.
class Options : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool once = (register_functions(), true);
    static_cast<void>(once);
  }
  Options() {
    InlineExecutor executor;
    LocalStorage storage(executor);
    for (int64_t shard = 0; shard < kShards; ++shard) {
      write_file(path("lines", shard), fmt::format("one {0}\ntwo {0}\nthree {0}\nlast", shard));
      write_file(path("words", shard), fmt::format("aaa{0}bbb{0}ccc{0}ddd{0}", shard));
      write_file(path("csv", shard), fmt::format("{0};\"a\nb\"\n{0},\"c,\nd\"\n", shard));
      RecordWriter writer(path("tfrecord", shard), {});
      for (int64_t i = 0; i < 5; ++i) {
        example::Example message;
        auto& features = *message.mutable_features()->mutable_feature();
        const auto add = [&](const char* name, std::initializer_list<int64_t> values) {
          for (const int64_t value : values) features[name].mutable_int64_list()->add_value(value);
        };
        add("ids", {10 * shard + i, 10 * shard + i + 1, 10 * shard + i + 2});
        add("lengths", {1, 2});
        add("others", {2, 1});
        add("places", {0, 1, 3});
        add("places_too", {0, 2, 3});
        add("unsorted", {3, 0, 1});
        writer.write(message.SerializeAsString());
      }
      writer.close();
      write_atomically(index_path(path("tfrecord", shard)),
                       build_shard_index(storage, path("tfrecord", shard)).serialize());
    }
  }

  // Of each kind of operator.
  void of_sources();
  void of_several_inputs();
  void of_parsing();
  void of_functions();
  void of_features();
  void of_tokens_and_images();
  void of_the_stream();
  void of_batches();

  static constexpr int64_t kShards = 5;

  std::string path(const std::string& kind, int64_t shard) const {
    return folder_.path(fmt::format("{}.{}", kind, shard));
  }
  Shards files(const std::string& kind, int64_t count = kShards) const {
    std::vector<std::string> paths;
    for (int64_t shard = 0; shard < count; ++shard) paths.push_back(path(kind, shard));
    return Shards::files(paths);
  }

  // Two of each kind: `first` and `second`.
  static void register_functions() {
    for (const int64_t number : {1, 2}) {
      const std::string name = number == 1 ? "options.first" : "options.second";
      register_function(RowFunction{.name = name,
                                    .writes = {{.name = "x"}},
                                    .function = [number](const RowView&, RowWriter& out) { out.set("x", number); }});
      const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x"}});
      register_function(
          BlockFunction{.name = name, .schema = schema, .function = [schema, number](Block block, BufferPool& pool) {
                          Column column = Column::fixed(pool, DType::kInt64, {}, block.num_elements());
                          for (int64_t& value : column.mutable_values<int64_t>()) value = number;
                          return block.with_columns(schema, {std::move(column)});
                        }});
      register_function(RowPredicate{
          .name = name, .keep = [number](const RowView& row) { return row.value<int64_t>("value") < 3 * number; }});
      register_function(BlockPredicate{.name = name, .decide = [number](const Block& block, std::span<uint8_t> keep) {
                                         const auto values = block.column("value").values<int64_t>();
                                         for (size_t i = 0; i < keep.size(); ++i) keep[i] = values[i] < 3 * number;
                                       }});
      ScanFunction scan;
      scan.name = name;
      scan.writes = {{.name = "sum"}};
      scan.initial.integers = {number};
      scan.function = [](ScanNumbers& carried, const RowView&, RowWriter& out) {
        out.set("sum", carried.integers[0]++);
      };
      register_function(scan);
      register_function(
          DatasetFunction{.name = name, .gives = {{.name = "nested"}}, .make = [number](const RowView& row) {
                            return Dataset::range(0, row.value<int64_t>("value") + number, 1, "nested");
                          }});
      register_function(RowKey{
          .name = name, .key = [number](const RowView& row) { return row.value<int64_t>("value") % (number + 1); }});
      register_function(WindowSize::by_key(name, [number](int64_t) { return number + 1; }));
      register_function(Generator{.name = name,
                                  .gives = {{.name = "x"}},
                                  .runs = GeneratorRuns::replayed([number](const Iteration&) -> NextElement {
                                    return [i = int64_t{0}, number](RowWriter& out) mutable {
                                      if (i == 3) return false;
                                      out.set("x", number * i++);
                                      return true;
                                    };
                                  })});
    }
  }

  const test::TemporaryFolder folder_;
  const Dataset numbers_ = Dataset::range(0, 12);
  const Dataset pairs_ = Dataset::zip({numbers_, Dataset::range(20, 0, -1, "other")});
  const Dataset table_ = Dataset::rows(
      {{"value", std::vector<int64_t>{3, 1, 1, 2, 0}},
       {"other", std::vector<int64_t>{0, 0, 1, 1, 2}},
       {"ids", std::vector<std::vector<int64_t>>{{11, 12, 13}, {14}, {}, {15, 16}, {17, 18, 19, 20}}},
       {"more", std::vector<std::vector<int64_t>>{{1}, {2, 3}, {4, 5, 6}, {}, {7}}},
       {"twin", std::vector<std::vector<int64_t>>{{21, 22}, {23}, {24, 25, 26, 27}, {28}, {29, 30, 31}}}});
  // Vectors of one length.
  const Dataset even_ =
      Dataset::rows({{"value", std::vector<int64_t>{3, 1, 1, 2, 0}},
                     {"ids", std::vector<std::vector<int64_t>>{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}}}});
  const Dataset records_ = Dataset::tfrecord(files("tfrecord"));
};

void Options::of_sources() {
  Tested<RangeArguments>({.start = 0, .stop = 12})
      .with("start", WITH(a.start = 1))
      .with("stop", WITH(a.stop = 11))
      .with("step", WITH(a.step = 2))
      .with("feature", WITH(a.feature = "x"));
  const auto rows = [](MemoryFeature feature) {
    return std::make_shared<const std::vector<MemoryFeature>>(std::vector<MemoryFeature>{std::move(feature)});
  };
  using Integers = std::vector<int64_t>;
  using Reals = std::vector<float>;
  using Texts = std::vector<std::string>;
  const std::vector<Integers> pairs{{1, 2}, {3, 4}};
  Tested<RowsArguments>({.features = rows({"x", Integers{1, 2}})})
      .with("features.name", WITH(a.features = rows({"y", Integers{1, 2}})))
      .with("features.dtype", WITH(a.features = rows({"x", std::vector<int32_t>{1, 2}})))
      .with("features.integers", WITH(a.features = rows({"x", Integers{1, 3}})))
      .with("features.reals", WITH(a.features = rows({"x", Reals{1, 3}})), WITH(a.features = rows({"x", Reals{1, 2}})))
      .with("features.texts", WITH(a.features = rows({"x", Texts{"a", "c"}})),
            WITH(a.features = rows({"x", Texts{"a", "b"}})))
      .with("features.row_lengths", WITH(a.features = rows({"x", std::vector<Integers>{{1}, {2, 3, 4}}})),
            WITH(a.features = rows({"x", pairs})))
      .with("features.shape", WITH(a.features = rows({"x", pairs, Shape{1, 2}})),
            WITH(a.features = rows({"x", pairs, Shape{2}})));
  {
    Tested<TfrecordArguments> of({.shards = files("tfrecord"), .options = {.cycle_length = 1}});
    with_reading(of, "", [](auto& a) -> TfrecordOptions& { return a.options; });
    of.with("shards", WITH(a.shards = files("tfrecord", 2)));
    of.with("chunk_bytes", WITH(a.options.chunk_bytes = 32 << 10));
    of.with("read_ahead", WITH(a.options.read_ahead = 5));
  }
  {
    Tested<GlobalShuffleArguments> of({.shards = files("tfrecord"), .options = {}});
    with_damage(of, "damage.", [](auto& a) -> DamagePolicy& { return a.options.damage; });
    of.with("shards", WITH(a.shards = files("tfrecord", 2)));
    of.with("seed", WITH(a.options.seed = 7));
    of.with("reshuffle_each_iteration", WITH(a.options.reshuffle_each_iteration = false));
    of.with("window", WITH(a.options.window = 3));
    of.with("merge_gap", WITH(a.options.merge_gap = 0));
    of.with("reads_in_flight", WITH(a.options.reads_in_flight = 8));
    of.with("max_record_bytes", WITH(a.options.max_record_bytes = 10));
  }
  const auto read = [](auto& a) -> FileReadOptions& { return a.read; };
  {
    Tested<TextLinesArguments> of({.shards = files("lines"), .read = {}});
    of.with("shards", WITH(a.shards = files("lines", 2)));
    with_reading(of, "read.", read);
  }
  {
    const std::string folder = std::filesystem::path(folder_.path()).filename();
    Tested<FilesArguments> of({.files = files("lines"), .options = {}});
    with_damage(of, "damage.", [](auto& a) -> DamagePolicy& { return a.options.damage; });
    of.with("files", WITH(a.files = files("lines", 2)));
    of.with("label_from_folder", WITH(a.options.label_from_folder = true));
    of.with("class_names", WITH(a.options.class_names = {"no folder of these", folder}),
            WITH(a.options.label_from_folder = true));
    of.with("shuffle_files", WITH(a.options.shuffle_files = true; a.options.seed = 7));
    of.with("seed", WITH(a.options.seed = 7), WITH(a.options.shuffle_files = true));
    of.with("max_file_bytes", WITH(a.options.max_file_bytes = 3));
  }
  {
    Tested<FixedLengthRecordsArguments> of({.shards = files("words"), .format = {.record_bytes = 4}, .read = {}});
    of.with("shards", WITH(a.shards = files("words", 2)));
    of.with("record_bytes", WITH(a.format.record_bytes = 2));
    of.with("header_bytes", WITH(a.format.header_bytes = 4));
    of.with("footer_bytes", WITH(a.format.footer_bytes = 4));
    with_reading(of, "read.", read);
  }
  {
    Tested<CsvRecordsArguments> of({.shards = files("csv"), .format = {}, .read = {}});
    of.with("shards", WITH(a.shards = files("csv", 2)));
    of.with("format.delimiter", WITH(a.format.delimiter = ';'));
    of.with("format.quotes", WITH(a.format.quotes = false));
    of.with("format.header", WITH(a.format.header = true));
    of.refused("format.missing", WITH(a.format.missing = "NA"));
    of.refused("format.select_columns", WITH(a.format.select_columns = {1}));
    with_reading(of, "read.", read);
  }
  Tested<FromGeneratorArguments>({.generator = registered_function<Generator>("options.first")})
      .with("generator", WITH(a.generator = registered_function<Generator>("options.second")));
  numbers_.save(folder_.path("saved"));
  numbers_.save(folder_.path("saved_too"));
  Tested<LoadArguments>({.directory = folder_.path("saved")})
      .with("directory", WITH(a.directory = folder_.path("saved_too")));
}

void Options::of_several_inputs() {
  const Datasets two{numbers_, numbers_.skip(5)};
  Tested<InterleaveArguments>({.options = {.cycle_length = 2}}, two)
      .with("cycle_length", WITH(a.options.cycle_length = 1))
      .with("block_length", WITH(a.options.block_length = 2))
      .with("read_ahead", WITH(a.options.read_ahead = 0))
      .in_time("ordered", WITH(a.options.ordered = false));
  Tested<ConcatenateArguments>({}, two);
  Tested<FlatMapInputsArguments>({}, two);
  Tested<ZipArguments>({}, {numbers_});
  Tested<ChooseFromDatasetsArguments>({}, {numbers_.modulo("value", 2), numbers_.take(2), numbers_})
      .with("stop_on_empty", WITH(a.options.stop_on_empty = false));
  Tested<SampleFromDatasetsArguments>({.options = {.weights = {1, 1}}}, two)
      .with("weights", WITH(a.options.weights = {1, 5}))
      .with("seed", WITH(a.options.seed = 7))
      .with("stop_on_empty", WITH(a.options.stop_on_empty = true))
      .with("rerandomize_each_iteration", WITH(a.options.rerandomize_each_iteration = false));
}

void Options::of_parsing() {
  // The base of a change.
  const auto of = [](FeatureDescription feature) {
    return [feature](ParseExampleArguments& a) { a.features = {feature}; };
  };
  const FeatureDescription gone = fixed_len("gone", {1}, DType::kInt64);
  const auto integers = [](int64_t value) { return std::vector<int64_t>{value}; };
  const auto reals = [](float value) { return std::vector<float>{value}; };
  const auto texts = [](std::string value) { return std::vector<std::string>{std::move(value)}; };
  const FeatureDescription at = sparse("at", {"places"}, "ids", DType::kInt64, {5});
  Tested<ParseExampleArguments>({.features = {fixed_len("ids", {3}, DType::kInt64)}}, {records_})
      .with("features.kind", WITH(a.features[0].kind = FeatureDescription::kVarLen),
            of(fixed_len("ids", {}, DType::kInt64)))
      .with("features.key", WITH(a.features[0].key = "places"))
      .with("features.name", WITH(a.features[0].name = "named"))
      .with("features.stored", WITH(a.features[0].stored = a.features[0].dtype = DType::kFloat32))
      .with("features.dtype", WITH(a.features[0].dtype = DType::kInt32))
      .with("features.shape", WITH(a.features[0].shape = {3, 1}))
      .with("features.default_integers", WITH(a.features[0].default_values = integers(8)),
            of(gone.default_value(integers(7))))
      .with("features.default_reals", WITH(a.features[0].default_values = reals(8)),
            of(fixed_len("gone", {1}, DType::kFloat32).default_value(reals(7))))
      .with("features.default_texts", WITH(a.features[0].default_values = texts("8")),
            of(fixed_len("gone", {1}, DType::kBytes).default_value(texts("7"))))
      .with("features.default_is_empty", WITH(a.features[0].default_values = std::vector<int64_t>{}),
            of(fixed_len("gone", {0}, DType::kInt64)))
      .refused("features.allow_missing", WITH(a.features[0].allow_missing = false),
               of(fixed_len_sequence("gone", {}, DType::kInt64, {.allow_missing = true})))
      .with("features.partitions.kind", WITH(a.features[0].partitions[0].kind = Partition::kValueRowids),
            of(ragged("ids", DType::kInt64, {row_lengths("lengths")})))
      .with("features.partitions.key", WITH(a.features[0].partitions[0].key = "others"),
            of(ragged("ids", DType::kInt64, {row_lengths("lengths")})))
      .with("features.partitions.row_length", WITH(a.features[0].partitions[0].row_length = 3),
            of(ragged("ids", DType::kInt64, {uniform_row_length(1)})))
      .with("features.index_keys", WITH(a.features[0].index_keys = {"places_too"}), of(at))
      .with("features.size", WITH(a.features[0].size = {2}),
            of(sparse("at", {"places"}, "ids", DType::kInt64, {5}, {.validate = true})))
      .with("features.already_sorted", WITH(a.features[0].already_sorted = true),
            of(sparse("at", {"unsorted"}, "ids", DType::kInt64, {5})))
      .with("features.validate", WITH(a.features[0].validate = true),
            of(sparse("at", {"places"}, "ids", DType::kInt64, {2})));
  Tested<ParseSequenceExampleArguments>(
      {.context = {var_len("ids", DType::kInt64)}, .feature_lists = {fixed_len_sequence("gone", {}, DType::kInt64)}},
      {records_})
      .with("feature_lists.allow_missing", WITH(a.feature_lists[0].allow_missing = true))
      .as_elsewhere<WrittenFeature>("context.")
      .as_elsewhere<WrittenFeature>("feature_lists.");
  const Dataset csv = Dataset::rows({{"record", std::vector<std::string>{"1,x", "2,\"y\"", "NA,;z"}}});
  Tested<ParseCsvArguments>({.columns = {{"a", DType::kBytes, "0"}, {"b", DType::kBytes, "none"}}, .format = {}}, {csv})
      .with("columns.name", WITH(a.columns[0].name = "c"))
      .with("columns.dtype", WITH(a.columns[0].dtype = DType::kInt64), WITH(a.columns[0].default_value = std::nullopt))
      .with("columns.default_value", WITH(a.columns[0].default_value = "7"), WITH(a.format.missing = "NA"))
      .with("format.delimiter", WITH(a.format.delimiter = ';'))
      .with("format.quotes", WITH(a.format.quotes = false))
      .refused("format.header", WITH(a.format.header = true))
      .with("format.missing", WITH(a.format.missing = "NA"))
      .with("format.select_columns", WITH(a.format.select_columns = {0}),
            WITH(a.columns.pop_back(); a.format.select_columns = {1}))
      .with("damage", WITH(a.damage = DamagePolicy::kSkip));
  const Dataset bytes = Dataset::rows(
      {{"bytes", std::vector<std::string>{"abcd", "efgh"}}, {"more", std::vector<std::string>{"ijkl", "mnop"}}});
  const std::string picture = test::written_png(test::drawn_picture(16, 20, 4));
  const std::string turned = test::with_segment(test::written_jpeg(test::drawn_picture(16, 20, 3)), 0xe1,
                                                std::string("Exif\0\0", 6) + test::exif_data(6));
  const Dataset pictures = Dataset::rows(
      {{"bytes", std::vector<std::string>{picture, turned}}, {"more", std::vector<std::string>{turned, picture}}});
  Tested<DecodeImageArguments>({.feature = "bytes", .options = {}}, {pictures})
      .with("feature", WITH(a.feature = "more"))
      .with("channels", WITH(a.options.channels = 1))
      .with("size", WITH(a.options.size = Shape{16, 20}))
      .with("background", WITH(a.options.background = Shape{0, 0, 0}))
      .with("crop.kind", WITH(a.options.crop->kind = CropKind::kRandom),
            WITH(a.options.crop = ImageCrop{.height = 5, .width = 5}))
      .with("crop.height", WITH(a.options.crop->height = 6), WITH(a.options.crop = ImageCrop{.height = 5, .width = 5}))
      .with("crop.width", WITH(a.options.crop->width = 6), WITH(a.options.crop = ImageCrop{.height = 5, .width = 5}))
      .with("crop.area", WITH(a.options.crop->area = {0.5, 0.6}),
            WITH(a.options.crop = ImageCrop{.kind = CropKind::kRandomResized}))
      .with("crop.ratio", WITH(a.options.crop->ratio = {1, 1}),
            WITH(a.options.crop = ImageCrop{.kind = CropKind::kRandomResized}))
      .with("crop.attempts", WITH(a.options.crop->attempts = 0),
            WITH(a.options.crop = ImageCrop{.kind = CropKind::kRandomResized}))
      .with("seed", WITH(a.options.seed = 7),
            WITH(a.options.crop = ImageCrop{.kind = CropKind::kRandom, .height = 5, .width = 5}))
      .with("upright", WITH(a.options.upright = true))
      .with("least_side", WITH(a.options.least_side = 2))
      .with("max_pixels", WITH(a.options.max_pixels = 1));
  Tested<DecodeRawArguments>({.feature = "bytes", .type = RawType::kInt16, .options = {}}, {bytes})
      .with("feature", WITH(a.feature = "more"))
      .with("type", WITH(a.type = RawType::kInt8))
      .with("dtype", WITH(a.options.dtype = DType::kUint8), WITH(a.type = RawType::kUint8))
      .with("shape", WITH(a.options.shape = Shape{2}))
      .with("little_endian", WITH(a.options.little_endian = false));
  const std::string two_filled("\x08\x03\x12\x04\x12\x02\x08\x02:\x01\x07", 11);
  const Dataset tensors =
      Dataset::rows({{"bytes", std::vector<std::string>{two_filled}}, {"more", std::vector<std::string>{two_filled}}});
  Tested<ParseTensorArguments>({.feature = "bytes", .dtype = DType::kInt64, .shape = {kVaries}, .options = {}},
                               {tensors})
      .with("feature", WITH(a.feature = "more"))
      .with("dtype", WITH(a.dtype = DType::kInt32))
      .with("shape", WITH(a.shape = {2}))
      .with("max_filled_values", WITH(a.options.max_filled_values = 0));
}

void Options::of_functions() {
  const auto first = [](auto& function) {
    function = registered_function<std::decay_t<decltype(function)>>("options.first");
  };
  const auto second = [](auto& function) {
    function = registered_function<std::decay_t<decltype(function)>>("options.second");
  };
  MapArguments map;
  first(map.function);
  Tested<MapArguments>(map, {numbers_}).with("function", WITH(second(a.function)));
  MapBlocksArguments map_blocks;
  first(map_blocks.function);
  Tested<MapBlocksArguments>(map_blocks, {numbers_}).with("function", WITH(second(a.function)));
  FilterArguments filter;
  first(filter.predicate);
  Tested<FilterArguments>(filter, {numbers_}).with("predicate", WITH(second(a.predicate)));
  FilterBlocksArguments filter_blocks;
  first(filter_blocks.predicate);
  Tested<FilterBlocksArguments>(filter_blocks, {numbers_}).with("predicate", WITH(second(a.predicate)));
  TakeWhileArguments take_while;
  first(take_while.predicate);
  Tested<TakeWhileArguments>(take_while, {numbers_}).with("predicate", WITH(second(a.predicate)));
  ScanArguments scan;
  first(scan.function);
  Tested<ScanArguments>(scan, {numbers_}).with("function", WITH(second(a.function)));
  FlatMapArguments flat_map;
  first(flat_map.function);
  Tested<FlatMapArguments>(flat_map, {numbers_}).with("function", WITH(second(a.function)));
  InterleaveFunctionArguments interleave{.options = {.cycle_length = 2}};
  first(interleave.function);
  Tested<InterleaveFunctionArguments>(interleave, {numbers_})
      .with("function", WITH(second(a.function)))
      .with("cycle_length", WITH(a.options.cycle_length = 3))
      .with("block_length", WITH(a.options.block_length = 2))
      .with("read_ahead", WITH(a.options.read_ahead = 0))
      .in_time("ordered", WITH(a.options.ordered = false));
  GroupByWindowArguments groups{.window_size = 3};
  first(groups.key);
  Tested<GroupByWindowArguments> of(groups, {even_});
  of.with("key", WITH(second(a.key)));
  of.with("window_size", WITH(a.window_size = 2));
  of.with("window_size_function", WITH(a.window_size = registered_function<WindowSize>("options.second")),
          WITH(a.window_size = registered_function<WindowSize>("options.first")));
  of.with("batches", WITH(a.batches = PaddedBatchOptions{.length = PadLength::fixed(9)}));
  of.with("batches.batch.drop_remainder", WITH(a.batches = BatchOptions{.drop_remainder = true}));
  of.with("batches.ragged_batch.drop_remainder", WITH(a.batches = RaggedBatchOptions{.drop_remainder = true}),
          WITH(a.batches = RaggedBatchOptions{}));
  with_padding(of, "batches.padded_batch.", [](auto& a) -> PaddedBatchOptions& {
    if (!std::holds_alternative<PaddedBatchOptions>(a.batches)) a.batches = PaddedBatchOptions{};
    return std::get<PaddedBatchOptions>(a.batches);
  });
}

void Options::of_features() {
  Tested<AddArguments>({.feature = "value", .k = int64_t{7}}, {pairs_})
      .with("feature", WITH(a.feature = "other"))
      .with("k", WITH(a.k = int64_t{8}));
  Tested<MultiplyArguments>({.feature = "value", .k = int64_t{7}}, {pairs_})
      .with("feature", WITH(a.feature = "other"))
      .with("k", WITH(a.k = int64_t{8}));
  Tested<ModuloArguments>({.feature = "value", .k = 3}, {pairs_})
      .with("feature", WITH(a.feature = "other"))
      .with("k", WITH(a.k = 2));
  Tested<CastArguments>({.feature = "value", .to = DType::kInt32}, {pairs_})
      .with("feature", WITH(a.feature = "other"))
      .with("to", WITH(a.to = DType::kFloat32));
  Tested<EnumerateArguments>({}, {numbers_}).with("start", WITH(a.start = 3)).with("feature", WITH(a.feature = "x"));
  Tested<UniqueArguments>({.feature = "value"}, {table_}).with("feature", WITH(a.feature = "other"));
  Tested<RenameArguments>({.names = {{"value", "x"}}}, {numbers_}).with("names", WITH(a.names = {{"value", "y"}}));
  Tested<SelectArguments>({.features = {"value"}}, {pairs_}).with("features", WITH(a.features = {"other"}));
  Tested<DropArguments>({.features = {"value"}}, {pairs_}).with("features", WITH(a.features = {"other"}));
  Tested<OneHotArguments>({.feature = "value", .depth = 3, .options = {}}, {pairs_})
      .with("feature", WITH(a.feature = "other"))
      .with("depth", WITH(a.depth = 4))
      .with("dtype", WITH(a.options.dtype = DType::kInt32))
      .with("on_value", WITH(a.options.on_value = 0.5))
      .with("off_value", WITH(a.options.off_value = int64_t{-1}));
  Tested<TruncateArguments>({.options = {.features = {"ids"}, .head = 1}}, {table_})
      .with("features", WITH(a.options.features = {"more"}))
      .with("head", WITH(a.options.head = 2))
      .with("tail", WITH(a.options.tail = 1))
      .with("marker", WITH(a.options.marker = {{"ids", int64_t{99}}}));
  Tested<TruncatePairArguments>({.options = {.first = {"ids"}, .second = {"more"}, .length = 2}}, {table_})
      .with("first", WITH(a.options.first = {"twin"}))
      .with("second", WITH(a.options.second = {"twin"}))
      .with("length", WITH(a.options.length = 3));
  Tested<RejectionResampleArguments>(
      {.options = {.feature = "value", .target_distribution = {1, 3}, .initial_distribution = {1, 1}}},
      {Dataset::zip({Dataset::range(0, 400).modulo("value", 2),
                     Dataset::range(0, 400).modulo("value", 3).modulo("value", 2).rename({{"value", "other"}})})})
      .with("feature", WITH(a.options.feature = "other"))
      .with("target_distribution", WITH(a.options.target_distribution = {3, 1}))
      .with("initial_distribution", WITH(a.options.initial_distribution = {1, 5}))
      .with("seed", WITH(a.options.seed = 7));
}

void Options::of_tokens_and_images() {
  const std::vector<std::vector<int64_t>> starts(4, {1, 0, 1, 0, 1, 0});
  const std::vector<std::vector<int64_t>> rows{
      {5, 6, 7, 8, 9, 4}, {9, 8, 7, 6, 5, 4}, {5, 5, 6, 6, 7, 7}, {4, 5, 6, 7, 8, 9}};
  const std::vector<std::vector<int64_t>> ones(4, {1, 1, 1, 1, 1, 1});
  const std::vector<std::vector<int64_t>> short_mask(4, {1, 1, 0, 0, 0, 0});
  const Dataset tokens =
      Dataset::rows({{"ids", rows}, {"ids_too", rows}, {"mask", ones}, {"short", short_mask}, {"starts", starts}});
  const auto words = WITH(a.options.word_starts = "starts");
  Tested<MaskTokensArguments>(
      {.options =
           {.vocab_size = 20, .mask_token = 3, .probability = 0.5, .input_ids = "ids", .attention_mask = "mask"}},
      {tokens})
      .with("vocab_size", WITH(a.options.vocab_size = 10), WITH(a.options.random_share = 1; a.options.mask_share = 0))
      .with("mask_token", WITH(a.options.mask_token = 2))
      .with("special_tokens", WITH(a.options.special_tokens = {5, 6, 7}))
      .with("probability", WITH(a.options.probability = 0.9))
      .with("mask_share", WITH(a.options.mask_share = 0.1))
      .with("random_share", WITH(a.options.random_share = 0.9), WITH(a.options.mask_share = 0.1))
      .with("seed", WITH(a.options.seed = 7))
      .with("input_ids", WITH(a.options.input_ids = "ids_too"))
      .with("attention_mask", WITH(a.options.attention_mask = "short"))
      .with("labels", WITH(a.options.labels = "targets"))
      .with("word_starts", words)
      .with("starts_word", WITH(a.options.starts_word[5] = true), WITH(a.options.starts_word.resize(20)))
      .with("spans.stop", WITH(a.options.spans->stop = 0.9), WITH(a.options.spans.emplace()))
      .with("spans.max_length", WITH(a.options.spans->max_length = 1), WITH(a.options.spans.emplace()));
  const std::vector<std::vector<int64_t>> long_rows(4, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 60});
  Tested<CorruptSpansArguments>(
      {.options = {.vocab_size = 200, .noise_density = 0.5, .mean_span_length = 2, .input_ids = "ids"}},
      {Dataset::rows({{"ids", long_rows}, {"ids_too", long_rows}})})
      .with("vocab_size", WITH(a.options.vocab_size = 300))
      .with("noise_density", WITH(a.options.noise_density = 0.2))
      .with("mean_span_length", WITH(a.options.mean_span_length = 3))
      .with("first_sentinel", WITH(a.options.first_sentinel = 150))
      .with("num_sentinels", WITH(a.options.num_sentinels = 150))
      .with("end_token", WITH(a.options.end_token = 1))
      .with("seed", WITH(a.options.seed = 7))
      .with("input_ids", WITH(a.options.input_ids = "ids_too"))
      .with("labels", WITH(a.options.labels = "targets"));
  RowFunction paint{.name = "paint",
                    .writes = {{.name = "image", .dtype = DType::kFloat32, .shape = {4, 4, 3}},
                               {.name = "image_too", .dtype = DType::kFloat32, .shape = {4, 4, 3}},
                               {.name = "label", .dtype = DType::kFloat32, .shape = {2}}},
                    .keep_others = false};
  paint.function = [](const RowView& row, RowWriter& out) {
    const auto value = static_cast<float>(row.value<int64_t>("value"));
    for (const char* name : {"image", "image_too"}) {
      const std::array<int64_t, 3> shape{4, 4, 3};
      std::span<float> image = out.make<float>(name, shape);
      for (size_t i = 0; i < image.size(); ++i) image[i] = 10 * value + static_cast<float>(i);
    }
    out.set_values<float>("label", std::array<float, 2>{value, 1 - value});
  };
  const Dataset images = numbers_.map(paint);
  Tested<AugmentImagesArguments>({.options = {.features = {"image"}, .brightness = 0.5}}, {images})
      .with("features", WITH(a.options.features = {"image_too"}))
      .with("rotate", WITH(a.options.rotate = true))
      .with("flip_left_right", WITH(a.options.flip_left_right = true))
      .with("flip_up_down", WITH(a.options.flip_up_down = true))
      .with("brightness", WITH(a.options.brightness = 0.7))
      .with("contrast", WITH(a.options.contrast = {0.5, 2}))
      .with("saturation", WITH(a.options.saturation = {0.5, 2}))
      .with("hue", WITH(a.options.hue = 0.25))
      .with("clip", WITH(a.options.clip = {{0, 9}}))
      .with("seed", WITH(a.options.seed = 7));
  const auto by_shorter_side = [](auto& a) {
    a.options.height = a.options.width = {};
    a.options.shorter_side = 2;
  };
  const auto by_longer_side = [](auto& a) {
    a.options.height = a.options.width = {};
    a.options.longer_side = 2;
  };
  Tested<ResizeArguments>({.options = {.height = 3, .width = 2}}, {images.cast("image", DType::kUint8)})
      .with("feature", WITH(a.options.feature = "image_too"))
      .with("height", WITH(a.options.height = 2))
      .with("width", WITH(a.options.width = 3))
      .with("shorter_side", WITH(a.options.shorter_side = 3), by_shorter_side)
      .with("longer_side", WITH(a.options.longer_side = 3), by_longer_side)
      .with("method", WITH(a.options.method = ResizeMethod::kNearest))
      .with("antialias", WITH(a.options.antialias = true))
      .with("keep_dtype", WITH(a.options.keep_dtype = true));
  const auto resized = [](auto& a) { a.options.window = {.kind = CropKind::kRandomResized}; };
  Tested<CropArguments>(
      {.options = {.features = {"image"}, .window = {.kind = CropKind::kRandom, .height = 2, .width = 3}}}, {images})
      .with("features", WITH(a.options.features = {"image_too"}))
      .with("kind", WITH(a.options.window.kind = CropKind::kCentre))
      .with("height", WITH(a.options.window.height = 3))
      .with("width", WITH(a.options.window.width = 2))
      .with("area", WITH(a.options.window.area = {0.5, 0.75}), resized)
      .with("ratio", WITH(a.options.window.ratio = {2, 3}), resized)
      .with("attempts", WITH(a.options.window.attempts = 0), resized)
      .with("seed", WITH(a.options.seed = 7));
  Tested<PadArguments>({.options = {.height = 5, .width = 6}}, {images})
      .with("feature", WITH(a.options.feature = "image_too"))
      .with("height", WITH(a.options.height = 6))
      .with("width", WITH(a.options.width = 5))
      .with("value", WITH(a.options.value = 0.5))
      .with("kind", WITH(a.options.kind = PadKind::kTopLeft));
  Tested<NormalizeArguments>({.options = {.mean = {3}, .standard_deviation = {2}}}, {images})
      .with("feature", WITH(a.options.feature = "image_too"))
      .with("mean", WITH(a.options.mean = {1, 2, 3}))
      .with("standard_deviation", WITH(a.options.standard_deviation = {1, 2, 3}))
      .with("channels_first", WITH(a.options.channels_first = true));
  Tested<MixupArguments>({.options = {.features = {"image"}}}, {images.batch(4)})
      .with("features", WITH(a.options.features = {"image", "label"}))
      .with("alpha", WITH(a.options.alpha = 3))
      .with("probability", WITH(a.options.probability = 0.1))
      .with("seed", WITH(a.options.seed = 7));
  Tested<CutmixArguments>({}, {images.batch(4)})
      .with("image", WITH(a.options.image = "image_too"))
      .with("labels", WITH(a.options.labels = {"label"}))
      .with("alpha", WITH(a.options.alpha = 5))
      .with("probability", WITH(a.options.probability = 0.1))
      .with("seed", WITH(a.options.seed = 7));
}

void Options::of_the_stream() {
  Tested<TakeArguments>({.count = 5}, {numbers_}).with("count", WITH(a.count = 4));
  Tested<SkipArguments>({.count = 5}, {numbers_}).with("count", WITH(a.count = 4));
  Tested<ShardArguments>({.num_shards = 2, .index = 0}, {numbers_})
      .with("num_shards", WITH(a.num_shards = 3))
      .with("index", WITH(a.index = 1));
  Tested<RepeatArguments>({.count = 2}, {numbers_}).with("count", WITH(a.count = 3));
  Tested<ShuffleArguments>({.buffer_size = 5}, {numbers_})
      .with("buffer_size", WITH(a.buffer_size = 9))
      .with("seed", WITH(a.options.seed = 7))
      .with("reshuffle_each_iteration", WITH(a.options.reshuffle_each_iteration = false));
  Tested<AssertCardinalityArguments>({.count = 12}, {numbers_}).with("count", WITH(a.count = 11));
  Tested<IgnoreErrorsArguments>({}, {numbers_});
  {
    Tested<DamageBudgetArguments> of({.policy = {.action = DamagePolicy::kSkip, .max_records = 5}}, {numbers_});
    of.refused("policy.action", WITH(a.policy = {.action = DamagePolicy::kFail, .max_records = 5}));
    of.with("policy.max_records", WITH(a.policy.max_records = 6));
    of.with("policy.max_bytes", WITH(a.policy.max_bytes = 6));
    of.with("policy.max_share", WITH(a.policy.max_share = 0.5));
  }
  Tested<CacheArguments>({.options = {.directory = folder_.path("cache")}}, {numbers_})
      .with("directory", WITH(a.options.directory = folder_.path("cache_too")));
  Tested<SnapshotArguments>({.directory = folder_.path("snapshot")}, {numbers_})
      .with("directory", WITH(a.directory = folder_.path("snapshot_too")));
  Tested<PrefetchArguments>({.buffer_size = 1}, {numbers_}).with("buffer_size", WITH(a.buffer_size = 2));
}

void Options::of_batches() {
  Tested<BatchArguments>({.size = 5}, {numbers_})
      .with("size", WITH(a.size = 4))
      .with("drop_remainder", WITH(a.options.drop_remainder = true));
  {
    Tested<PaddedBatchArguments> of({.size = 2}, {table_});
    of.with("size", WITH(a.size = 3));
    with_padding(of, "padding.", [](auto& a) -> PaddedBatchOptions& { return a.padding; });
  }
  Tested<RaggedBatchArguments>({.size = 2}, {table_})
      .with("size", WITH(a.size = 3))
      .with("drop_remainder", WITH(a.options.drop_remainder = true));
  Tested<UnbatchArguments>({}, {numbers_.batch(5)});
  Tested<RebatchArguments>({.size = 5}, {numbers_.batch(4)})
      .with("size", WITH(a.size = 3))
      .with("drop_remainder", WITH(a.options.drop_remainder = true));
  {
    Tested<BucketBySequenceLengthArguments> of({.features = {"ids"}, .boundaries = {2, 9}, .batch_sizes = {2, 2, 2}},
                                               {table_});
    of.with("features", WITH(a.features = {"twin"}));
    of.with("boundaries", WITH(a.boundaries = {3, 9}));
    of.with("batch_sizes", WITH(a.batch_sizes = {1, 2, 2}));
    of.with("pad_to_bucket_boundary", WITH(a.options.pad_to_bucket_boundary = true));
    with_padding(of, "padding.", [](auto& a) -> PaddedBatchOptions& { return a.options.padding; });
  }
  {
    Tested<WindowArguments> of({.size = 2, .options = {}, .batches = PaddedBatchOptions{}}, {even_});
    of.with("size", WITH(a.size = 3));
    of.with("shift", WITH(a.options.shift = 1));
    of.with("stride", WITH(a.options.stride = 2));
    of.with("batches", WITH(a.batches = PaddedBatchOptions{.length = PadLength::fixed(9)}));
    of.with("batches.batch.drop_remainder", WITH(a.batches = BatchOptions{.drop_remainder = true}),
            WITH(a.batches = BatchOptions{}));
    of.with("batches.ragged_batch.drop_remainder", WITH(a.batches = RaggedBatchOptions{.drop_remainder = true}),
            WITH(a.batches = RaggedBatchOptions{}));
    with_padding(of, "batches.padded_batch.",
                 [](auto& a) -> PaddedBatchOptions& { return std::get<PaddedBatchOptions>(a.batches); });
  }
  Tested<PackArguments>({.length = 6, .options = {.features = {"ids"}}}, {table_})
      .with("length", WITH(a.length = 7))
      .with("look_ahead", WITH(a.options.look_ahead = 1))
      .with("long_sequences", WITH(a.options.long_sequences = LongSequences::kSplit), WITH(a.length = 3))
      .with("features", WITH(a.options.features = {"more"}))
      .with("value", WITH(a.options.value = int64_t{-1}))
      .with("values", WITH(a.options.values = {{"ids", int64_t{-1}}}))
      .with("segment_ids", WITH(a.options.segment_ids = "segments"))
      .with("positions", WITH(a.options.positions = "places"));
}

TEST_F(Options, AreWhatTheyAreDescribedAs) {
  of_sources();
  of_several_inputs();
  of_parsing();
  of_functions();
  of_features();
  of_tokens_and_images();
  of_the_stream();
  of_batches();
  const auto* operators = def::Step::descriptor()->FindOneofByName("operator");
  for (int i = 0; i < operators->field_count(); ++i) {
    EXPECT_TRUE(tested().contains(operators->field(i)->name())) << operators->field(i)->name();
  }
}

#undef WITH

}  // namespace
}  // namespace millrace::options_test
