#include "tests/ops/tfdata_cases.h"

#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include "ops/arithmetic.h"
#include "ops/batch.h"
#include "ops/filter.h"
#include "ops/ignore_errors.h"
#include "ops/interleave.h"
#include "ops/map.h"
#include "ops/padded_batch.h"
#include "ops/prefetch.h"
#include "ops/range.h"
#include "ops/repeat.h"
#include "ops/rows.h"
#include "ops/shard.h"
#include "ops/skip.h"
#include "ops/take.h"
#include "tests/support/operator_chain.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

struct NotYet {
  std::string what;
};

// What tf.data calls the modulo: it has the sign of the divisor.
int64_t floored_modulo(int64_t x, int64_t m) {
  const int64_t remainder = x % m;
  return remainder != 0 && (remainder < 0) != (m < 0) ? remainder + m : remainder;
}

Chain interleave(const Json& step, int64_t cycle_length, int64_t block_length) {
  if (cycle_length < 1 || block_length < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, "interleave: lengths must be at least 1");
  }
  const std::string feature = step.at("feature");
  const SchemaPtr schema = RangeOperator(0, 1, 1, feature).schema();
  std::vector<Chain> inputs;
  if (step.contains("ranges")) {
    for (const Json& range : step["ranges"]) {
      inputs.push_back(
          Chain::source<RangeOperator>(range.at(0).get<int64_t>(), range.at(1).get<int64_t>(), 1, feature));
    }
  } else {
    for (const Json& value : step.at("values")) {
      const std::vector<int64_t> values(step.at("times").get<size_t>(), value.get<int64_t>());
      inputs.push_back(Chain::source<RowsOperator>(std::vector<MemoryFeature>{{feature, values}}));
    }
  }
  const InterleaveOptions options{.cycle_length = static_cast<size_t>(cycle_length),
                                  .block_length = static_cast<size_t>(block_length)};
  return Chain::of(std::make_shared<InterleaveOperator>(schema, options, inputs.size()), inputs);
}

Chain source(const Json& step) {
  const std::string op = step.at("op");
  if (op == "range") {
    return Chain::source<RangeOperator>(step.at("start").get<int64_t>(), step.at("stop").get<int64_t>(),
                                        step.at("step").get<int64_t>(), step.at("feature").get<std::string>());
  }
  if (op == "rows") {
    // The rows vary, also where by chance they do not.
    return Chain::source<RowsOperator>(std::vector<MemoryFeature>{
        {step.at("feature").get<std::string>(), step.at("rows").get<std::vector<std::vector<int64_t>>>()}});
  }
  if (op == "interleave") {
    return interleave(step, step.at("cycle_length").get<int64_t>(), step.at("block_length").get<int64_t>());
  }
  if (op == "flat_map") return interleave(step, 1, 1);
  throw NotYet{op};
}

Chain map(const Chain& input, const Json& step) {
  const std::string fn = step.at("fn");
  const std::string feature = step.at("feature");
  if (fn == "add") return input.then<ArithmeticOperator>(feature, Arithmetic::kAdd, step.at("k").get<int64_t>());
  if (fn == "mul") return input.then<ArithmeticOperator>(feature, Arithmetic::kMultiply, step.at("k").get<int64_t>());
  if (fn == "mod") return input.then<ArithmeticOperator>(feature, Arithmetic::kModulo, step.at("k").get<int64_t>());
  if (fn != "fail_if_mod") throw NotYet{"map " + fn};
  const auto m = step.at("m").get<int64_t>();
  const auto r = step.at("r").get<int64_t>();
  return input.then<MapRowsOperator>(
      RowFunction{.name = "fail_if_mod", .writes = {}, .function = [feature, m, r](const RowView& row, RowWriter&) {
                    for (const int64_t value : row.values<int64_t>(feature)) {
                      if (floored_modulo(value, m) == r)
                        throw std::invalid_argument(fmt::format("{} % {} is {}", value, m, r));
                    }
                  }});
}

Chain filter(const Chain& input, const Json& step) {
  const std::string fn = step.at("fn");
  const std::string feature = step.at("feature");
  if (fn == "mod_eq") {
    const auto m = step.at("m").get<int64_t>();
    const auto r = step.at("r").get<int64_t>();
    return input.then<FilterOperator>(
        RowPredicate{fn, [=](const RowView& row) { return floored_modulo(row.value<int64_t>(feature), m) == r; }});
  }
  if (fn == "length_lt") {
    const auto n = step.at("n").get<int64_t>();
    return input.then<FilterOperator>(RowPredicate{fn, [=](const RowView& row) { return row.shape(feature)[0] < n; }});
  }
  throw NotYet{"filter " + fn};
}

Chain transform(const Chain& input, const Json& step) {
  const std::string op = step.at("op");
  const auto number = [&](const char* name) { return step.at(name).get<int64_t>(); };
  if (op == "map") return map(input, step);
  if (op == "filter") return filter(input, step);
  if (op == "take") return input.then<TakeOperator>(number("n"));
  if (op == "skip") return input.then<SkipOperator>(number("n"));
  if (op == "shard") return input.then<ShardOperator>(number("num_shards"), number("index"));
  if (op == "repeat") return input.then<RepeatOperator>(number("count"));
  if (op == "prefetch") return input.then<PrefetchOperator>(number("n"));
  if (op == "ignore_errors") return input.then<IgnoreErrorsOperator>();
  if (op == "batch") {
    return input.then<BatchOperator>(number("size"), BatchOptions{.drop_remainder = step.at("drop_remainder")});
  }
  if (op == "padded_batch") {
    PaddedBatchOptions options{.drop_remainder = step.at("drop_remainder"), .value = number("value")};
    if (!step.at("length").is_null()) options.length = PadLength::fixed(number("length"));
    return input.then<PaddedBatchOperator>(number("size"), options);
  }
  throw NotYet{op};
}

Chain build(const Json& pipeline) {
  Chain chain = source(pipeline.at(0));
  for (size_t i = 1; i < pipeline.size(); ++i) chain = transform(chain, pipeline[i]);
  return chain;
}

std::string print(const Json& value) {
  if (!value.is_array()) return fmt::format("{}", value.get<int64_t>());
  std::string text = "[";
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) text += ',';
    text += print(value[i]);
  }
  return text + "]";
}

std::string print_element(const Json& element) {
  std::string text;
  for (const auto& [name, value] : element.items()) {
    if (!text.empty()) text += ' ';
    text += name;
    text += '=';
    text += print(value);
  }
  return text;
}

// Whether an error of ours may stand where tf.data has one of this kind.
bool matches(const std::string& kind, const std::string& error) {
  const auto is = [&](const char* code) { return error.rfind(fmt::format("error: {}:", code), 0) == 0; };
  if (kind == "invalid_argument") return is("user_function") || is("wrong_shape");
  if (kind == "data_loss") return is("wrong_shape");
  if (kind == "failed_precondition") return is("cardinality") || is("wrong_shape");
  return kind == "internal" && is("wrong_shape");
}

std::string cardinality_difference(const Json& expected, const Cardinality& found, size_t num_delivered) {
  const std::string text = expected.is_string() ? expected.get<std::string>() : expected.dump();
  if (found.to_string() == text) return "";
  // Where tf.data gives up, an exact number that proves right agrees too.
  if (text == "unknown" && found.is_known() && found.count() == static_cast<int64_t>(num_delivered)) return "";
  return fmt::format("cardinality: expected {}, found {}", text, found.to_string());
}

std::string stream_difference(const Json& definition, const Chain& chain, uint64_t jitter) {
  const Json& expected = definition.at("expect");
  const Json& error = definition.at("error");
  const size_t wanted = expected.size() + (error.is_null() ? 0 : 1);
  // One more than expected shows what should not be there.
  const Stream stream = chain.run(jitter, error.is_null() ? wanted + 1 : wanted);
  const std::string where = jitter == 0 ? "" : fmt::format(" (cut at random, seed {})", jitter);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text = print_element(expected[i]);
    const std::string found = i < stream.elements.size() ? stream.elements[i] : "the end";
    if (found != text) return fmt::format("element {}: expected {}, found {}{}", i, text, found, where);
  }
  if (error.is_null()) {
    if (stream.elements.size() > wanted) {
      return fmt::format("element {}: expected the end, found {}{}", wanted, stream.elements[wanted], where);
    }
    return "";
  }
  const std::string kind = error.at("kind");
  const std::string found = stream.elements.size() == wanted ? stream.elements.back() : "the end";
  if (!matches(kind, found)) return fmt::format("expected error {}, found {}{}", kind, found, where);
  return "";
}

std::string difference_of(const Json& definition) {
  const Json& error = definition.at("error");
  const bool refused = !error.is_null() && error.at("at") == "build";
  std::unique_ptr<Chain> chain;
  try {
    chain = std::make_unique<Chain>(build(definition.at("pipeline")));
  } catch (const ErrorException& e) {
    return refused ? "" : fmt::format("refused: {}", e.what());
  }
  if (refused) return "accepted; tf.data refuses to build it";
  for (uint64_t jitter = 0; jitter < 4; ++jitter) {
    std::string difference = stream_difference(definition, *chain, jitter);
    if (!difference.empty()) return difference;
  }
  return cardinality_difference(definition.at("cardinality"), chain->cardinality(), definition.at("expect").size());
}

}  // namespace

std::vector<TfdataCase> read_tfdata_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<TfdataCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    Json definition = Json::parse(line);
    std::string name = definition.at("name");
    cases.push_back({std::move(name), std::move(definition)});
  }
  return cases;
}

CaseOutcome run_tfdata_case(const TfdataCase& golden) {
  try {
    std::string difference = difference_of(golden.definition);
    if (difference.empty()) return {};
    return {CaseResult::kFailed, std::move(difference)};
  } catch (const NotYet& missing) {
    return {CaseResult::kNotYet, missing.what};
  }
}

}  // namespace millrace::test
