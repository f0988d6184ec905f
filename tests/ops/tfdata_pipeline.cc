#include "tests/ops/tfdata_pipeline.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/support/operator_chain.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

// What tf.data calls the modulo: it has the sign of the divisor.
int64_t floored_modulo(int64_t x, int64_t m) {
  if (m == 0) throw std::invalid_argument(fmt::format("{} modulo 0", x));
  if (m == -1) return 0;  // the quotient of the smallest number is none
  const int64_t remainder = x % m;
  return remainder != 0 && (remainder < 0) != (m < 0) ? remainder + m : remainder;
}

// Cuts what comes through at random places and answers kPending between.
class JitterOperator final : public StageOperator {
 public:
  JitterOperator(SchemaPtr schema, uint64_t seed) : StageOperator(std::move(schema)), seed_(seed) {}
  std::string_view name() const override { return "jitter"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    return std::make_unique<JitterStage>(open_input(inputs[0], context), seed_, context.waker);
  }

 private:
  uint64_t seed_;
};

// Seeds of the jitter after each step of a pipeline and of those in it; 0: none.
class Jitter {
 public:
  explicit Jitter(uint64_t seed) : seed_(seed) {}
  uint64_t seed() const { return seed_; }
  Dataset after(const Dataset& step) {
    if (seed_ == 0) return step;
    const uint64_t seed = seed_ * 1000 + num_steps_++;
    return Dataset::from_operator({step}, [seed](std::span<const SchemaPtr> inputs) {
      return std::make_shared<JitterOperator>(inputs[0], seed);
    });
  }

 private:
  uint64_t seed_;
  uint64_t num_steps_ = 0;
};

// A value so many times, or without end.
Dataset repeated(const std::string& feature, int64_t value, int64_t times) {
  if (times < 0) return Dataset::rows({{feature, std::vector<int64_t>{value}}}).repeat(-1);
  return Dataset::rows({{feature, std::vector<int64_t>(static_cast<size_t>(times), value)}});
}

// The inner sequences of an interleave or a flat_map.
std::vector<Dataset> inner_sequences(const Json& step, Jitter& jitter) {
  const std::string feature = step.at("feature");
  std::vector<Dataset> inputs;
  if (step.contains("ranges")) {
    for (const Json& range : step["ranges"]) {
      inputs.push_back(
          jitter.after(Dataset::range(range.at(0).get<int64_t>(), range.at(1).get<int64_t>(), 1, feature)));
    }
  } else {
    for (const Json& value : step.at("values")) {
      inputs.push_back(jitter.after(repeated(feature, value.get<int64_t>(), step.at("times").get<int64_t>())));
    }
  }
  return inputs;
}

// What makes the inner sequences of an interleave or a flat_map: one element for each.
Dataset inner_arguments(const Json& step, Jitter& jitter) {
  if (!step.contains("ranges")) {
    return jitter.after(Dataset::rows({{"value", step.at("values").get<std::vector<int64_t>>()}}));
  }
  std::vector<int64_t> starts;
  std::vector<int64_t> stops;
  for (const Json& range : step["ranges"]) {
    starts.push_back(range.at(0).get<int64_t>());
    stops.push_back(range.at(1).get<int64_t>());
  }
  return jitter.after(Dataset::rows({{"start", starts}, {"stop", stops}}));
}

// The inner sequence of one of them.
DatasetFunction inner_sequence(const Json& step) {
  const std::string feature = step.at("feature");
  DatasetFunction function;
  function.name = "inner_sequence";
  function.gives = {{.name = feature, .dtype = DType::kInt64, .shape = {}}};
  if (step.contains("ranges")) {
    function.make = [feature](const RowView& row) {
      return Dataset::range(row.value<int64_t>("start"), row.value<int64_t>("stop"), 1, feature);
    };
  } else {
    function.make = [feature, times = step.at("times").get<int64_t>()](const RowView& row) {
      return repeated(feature, row.value<int64_t>("value"), times);
    };
  }
  return function;
}

// By the listed inputs in turn with the function that makes them; a list without any has no features.
bool by_function(const Json& step, const Jitter& jitter) {
  return jitter.seed() % 2 == 1 || step.at(step.contains("ranges") ? "ranges" : "values").empty();
}

Dataset interleave(const Json& step, Jitter& jitter) {
  const auto cycle_length = step.at("cycle_length").get<int64_t>();
  const auto block_length = step.at("block_length").get<int64_t>();
  if (cycle_length < 1 || block_length < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, "interleave: lengths must be at least 1");
  }
  const InterleaveOptions options = {.cycle_length = static_cast<size_t>(cycle_length),
                                     .block_length = static_cast<size_t>(block_length)};
  if (by_function(step, jitter)) return inner_arguments(step, jitter).interleave(inner_sequence(step), options);
  return Dataset::interleave(inner_sequences(step, jitter), options);
}

Dataset flat_map(const Json& step, Jitter& jitter) {
  if (by_function(step, jitter)) return inner_arguments(step, jitter).flat_map(inner_sequence(step));
  return Dataset::flat_map(inner_sequences(step, jitter));
}

// What tf.data knows of the elements of a dataset and Millrace does not.
struct Translated {
  Dataset dataset;
  // Features that are ragged for tf.data and here are not: rows of ragged ones, which an unbatch has taken apart. It
  // batches them as ragged again. Here whoever wants that says so.
  std::set<std::string> ragged_rows = {};
};

Translated build(const Json& pipeline, Jitter& jitter);

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

const FeatureSpec& feature_of(const Dataset& dataset, const std::string& name) {
  return dataset.schema()[static_cast<size_t>(dataset.schema().column(name))];
}

// Where a function of tf.data's is refused when it is traced, and ours would find it element by element.
void expect_scalar(const Dataset& dataset, const std::string& feature) {
  if (!feature_of(dataset, feature).shape.empty()) refuse(feature + " is no scalar");
}
void expect_rows(const Dataset& dataset, const std::string& feature) {
  if (feature_of(dataset, feature).shape.empty()) refuse(feature + " is a scalar");
}

// tf.data does not know the length of these rows, also where by chance all have the same.
Dataset with_unknown_lengths(const Dataset& rows) {
  std::vector<FeatureSpec> features = rows.schema().features();
  if (features[0].shape[0] == kVaries) return rows;
  features[0].shape[0] = kVaries;
  const auto schema = std::make_shared<const Schema>(std::move(features));
  return rows.map(
      BlockFunction{.name = "with_unknown_lengths", .schema = schema, .function = [schema](Block block, BufferPool&) {
                      return block.with_columns(schema, block.columns());
                    }});
}

// Of several inputs: as tf.data, which compares what it knows of them, except where only one is drawn from.
std::set<std::string> common_ragged_rows(const std::vector<Translated>& inputs, const Json& step) {
  const std::string op = step.at("op");
  if (op == "sample") {
    const auto weights = step.at("weights").get<std::vector<double>>();
    const auto drawn = std::find_if(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
    return inputs.at(static_cast<size_t>(drawn - weights.begin())).ragged_rows;
  }
  for (const Translated& input : inputs) {
    if (input.ragged_rows != inputs[0].ragged_rows) refuse(op + ": ragged for tf.data, and not ragged");
  }
  return inputs.at(0).ragged_rows;
}

Dataset joined(const std::vector<Dataset>& inputs, const Json& step, Jitter& jitter) {
  const std::string op = step.at("op");
  if (op == "concatenate") return Dataset::concatenate(inputs);
  if (op == "zip") return Dataset::zip(inputs);
  if (op == "choose") {
    const Dataset choices = Dataset::rows({{"choice", step.at("choices").get<std::vector<int64_t>>()}});
    return Dataset::choose_from_datasets(inputs, jitter.after(choices), {.stop_on_empty = step.at("stop_on_empty")});
  }
  if (op == "sample") return Dataset::sample_from_datasets(inputs, {.weights = step.at("weights")});
  throw NotYet{op};
}

Translated source(const Json& step, Jitter& jitter) {
  const std::string op = step.at("op");
  if (op == "range") {
    return {Dataset::range(step.at("start").get<int64_t>(), step.at("stop").get<int64_t>(),
                           step.at("step").get<int64_t>(), step.at("feature").get<std::string>())};
  }
  if (op == "rows") {
    return {with_unknown_lengths(Dataset::rows(
        {{step.at("feature").get<std::string>(), step.at("rows").get<std::vector<std::vector<int64_t>>>()}}))};
  }
  if (op == "interleave") return {interleave(step, jitter)};
  if (op == "flat_map") return {flat_map(step, jitter)};
  if (!step.contains("inputs")) throw NotYet{op};
  std::vector<Translated> inputs;
  std::vector<Dataset> datasets;
  for (const Json& input : step["inputs"]) {
    inputs.push_back(build(input, jitter));
    datasets.push_back(inputs.back().dataset);
  }
  Dataset dataset = joined(datasets, step, jitter);
  // What merges the features of a zip is a function.
  if (op == "zip") return {dataset};
  return {dataset, common_ragged_rows(inputs, step)};
}

Dataset map(const Dataset& input, const Json& step) {
  const std::string fn = step.at("fn");
  const std::string feature = step.at("feature");
  if (fn == "add") return input.add(feature, step.at("k").get<int64_t>());
  if (fn == "mul") return input.multiply(feature, step.at("k").get<int64_t>());
  if (fn == "mod") return input.modulo(feature, step.at("k").get<int64_t>());
  if (fn != "fail_if_mod") throw NotYet{"map " + fn};
  const auto m = step.at("m").get<int64_t>();
  const auto r = step.at("r").get<int64_t>();
  return input.map({.name = "fail_if_mod", .writes = {}, .function = [feature, m, r](const RowView& row, RowWriter&) {
                      for (const int64_t value : row.values<int64_t>(feature)) {
                        if (floored_modulo(value, m) == r)
                          throw std::invalid_argument(fmt::format("{} % {} is {}", value, m, r));
                      }
                    }});
}

Dataset filter(const Dataset& input, const Json& step) {
  const std::string fn = step.at("fn");
  const std::string feature = step.at("feature");
  if (fn == "mod_eq") {
    expect_scalar(input, feature);
    const auto m = step.at("m").get<int64_t>();
    const auto r = step.at("r").get<int64_t>();
    return input.filter(
        RowPredicate{fn, [=](const RowView& row) { return floored_modulo(row.value<int64_t>(feature), m) == r; }});
  }
  if (fn == "length_lt") {
    expect_rows(input, feature);
    const auto n = step.at("n").get<int64_t>();
    return input.filter(RowPredicate{fn, [=](const RowView& row) { return row.shape(feature)[0] < n; }});
  }
  throw NotYet{"filter " + fn};
}

ScanFunction running_sum(const std::string& feature) {
  ScanFunction sum;
  sum.name = "running_sum";
  sum.writes = {{.name = "sum", .dtype = DType::kInt64, .shape = {}}};
  sum.initial.integers = {0};
  sum.function = [feature](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    for (const int64_t value : row.values<int64_t>(feature)) carried.integers[0] += value;
    out.set("sum", carried.integers[0]);
  };
  return sum;
}

// Elements of this feature only.
Dataset alone(const Dataset& input, const std::string& feature) {
  const Schema& features = input.schema();
  const FeatureSpec kept = features[static_cast<size_t>(features.column(feature))];
  BlockFunction function;
  function.name = "alone";
  function.schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{kept});
  function.function = [feature, schema = function.schema](Block block, BufferPool&) {
    return block.with_columns(schema, {block.column(feature)});
  };
  return input.map(function);
}

// The length is that of vectors; what has a higher rank is padded to the largest.
PaddedBatchOptions padding(const Dataset& input, const Json& step) {
  PaddedBatchOptions options{.drop_remainder = step.at("drop_remainder"), .value = step.at("value").get<int64_t>()};
  if (step.at("length").is_null() || step.at("length") == -1) return options;
  const PadLength length = PadLength::fixed(step.at("length").get<int64_t>());
  for (const FeatureSpec& feature : input.schema().features()) {
    if (feature.shape.size() == 1) options.features[feature.name].length = length;
  }
  return options;
}

// How elements are gathered, with ragged rows or without.
BatchingOptions gathering(bool ragged, bool drop_remainder = false) {
  if (ragged) return RaggedBatchOptions{.drop_remainder = drop_remainder};
  return BatchOptions{.drop_remainder = drop_remainder};
}

Dataset transform(const Dataset& input, const Json& step, bool ragged) {
  const std::string op = step.at("op");
  const auto number = [&](const char* name) { return step.at(name).get<int64_t>(); };
  if (op == "map") return map(input, step);
  if (op == "filter") return filter(input, step);
  if (op == "enumerate") return input.enumerate(number("start"));
  if (op == "take_while") {
    const std::string feature = step.at("feature");
    expect_scalar(input, feature);
    return input.take_while(
        {op, [feature, k = number("k")](const RowView& row) { return row.value<int64_t>(feature) < k; }});
  }
  if (op == "scan") {
    const std::string feature = step.at("feature");
    return input.scan(running_sum(feature));
  }
  if (op == "unique") {
    // tf.data's has elements of one feature, which is not ragged.
    const std::string feature = step.at("feature");
    if (feature_of(input, feature).is_ragged()) refuse("unique: ragged");
    return alone(input, feature).unique(feature);
  }
  if (op == "add_length") {
    const std::string feature = step.at("feature");
    expect_rows(input, feature);
    return input.map(
        {.name = op,
         .writes = {{.name = "length", .dtype = DType::kInt64, .shape = {}}},
         .function = [feature](const RowView& row, RowWriter& out) { out.set("length", row.shape(feature)[0]); }});
  }
  if (op == "take") return input.take(number("n"));
  if (op == "skip") return input.skip(number("n"));
  if (op == "shard") return input.shard(number("num_shards"), number("index"));
  if (op == "repeat") return input.repeat(number("count"));
  if (op == "cache") return input.cache();
  if (op == "prefetch") return input.prefetch(number("n"));
  if (op == "ignore_errors") return input.ignore_errors();
  if (op == "assert_cardinality") return input.assert_cardinality(number("n"));
  if (op == "batch" && !ragged) return input.batch(number("size"), {.drop_remainder = step.at("drop_remainder")});
  if (op == "batch" || op == "ragged_batch")
    return input.ragged_batch(number("size"), {.drop_remainder = step.at("drop_remainder")});
  if (op == "unbatch") return input.unbatch();
  if (op == "rebatch") return input.rebatch(number("size"), {.drop_remainder = step.at("drop_remainder")});
  if (op == "bucket_by_sequence_length") {
    return input.bucket_by_sequence_length({step.at("feature").get<std::string>()},
                                           step.at("boundaries").get<std::vector<int64_t>>(),
                                           step.at("batch_sizes").get<std::vector<int64_t>>(),
                                           {.pad_to_bucket_boundary = step.at("pad_to_bucket_boundary"),
                                            .padding = {.drop_remainder = step.at("drop_remainder")}});
  }
  if (op == "group_by_window") {
    const std::string feature = step.at("feature");
    expect_scalar(input, feature);
    const RowKey key{op, [feature, mod = number("mod")](const RowView& row) {
                       return floored_modulo(row.value<int64_t>(feature), mod);
                     }};
    return input.group_by_window(key, number("window_size"), gathering(ragged));
  }
  if (op == "window") {
    return input.window(number("size"), {.shift = number("shift"), .stride = number("stride")},
                        gathering(ragged, step.at("drop_remainder")));
  }
  if (op == "padded_batch") return input.padded_batch(number("size"), padding(input, step));
  throw NotYet{op};
}

// What tf.data holds for ragged after a step that here is not.
std::set<std::string> ragged_rows_after(const std::string& op, const Translated& input, const Schema& output) {
  // A function gets and gives tensors.
  static const std::set<std::string> kFunctions = {"map", "enumerate", "scan", "unique", "add_length", "ragged_batch"};
  if (kFunctions.count(op) > 0) return {};
  std::set<std::string> names = input.ragged_rows;
  for (const FeatureSpec& feature : input.dataset.schema().features()) {
    if (op == "unbatch" && feature.is_ragged()) names.insert(feature.name);
  }
  for (const FeatureSpec& feature : output.features()) {
    if (feature.is_ragged()) names.erase(feature.name);
  }
  return names;
}

Translated translated(const Translated& input, const Json& step, Jitter& jitter) {
  const std::string op = step.at("op");
  if ((op == "padded_batch" || op == "bucket_by_sequence_length") && !input.ragged_rows.empty()) {
    refuse(op + ": ragged for tf.data");
  }
  const bool ragged = std::any_of(input.ragged_rows.begin(), input.ragged_rows.end(), [&](const std::string& name) {
    return !feature_of(input.dataset, name).shape.empty();
  });
  const Dataset dataset = transform(input.dataset, step, ragged);
  return {jitter.after(dataset), ragged_rows_after(op, input, dataset.schema())};
}

Translated build(const Json& pipeline, Jitter& jitter) {
  Translated built = source(pipeline.at(0), jitter);
  built.dataset = jitter.after(built.dataset);
  for (size_t i = 1; i < pipeline.size(); ++i) built = translated(built, pipeline[i], jitter);
  return built;
}

}  // namespace

Dataset tfdata_pipeline(const Json& steps, uint64_t jitter) {
  Jitter after_each(jitter);
  return build(steps, after_each).dataset;
}

}  // namespace millrace::test
