#include "tests/ops/tfdata_cases.h"

#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "millrace/pipeline/dataset.h"
#include "tests/ops/tfdata_pipeline.h"
#include "tests/support/operator_chain.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

// Features by name, as the cases have them: their order means nothing.
std::string print_found(const Block& block, size_t element) {
  std::map<std::string, std::string> features;
  for (size_t c = 0; c < block.columns().size(); ++c) {
    features[(*block.schema())[c].name] = print_value(block.column(c), element);
  }
  std::string text;
  for (const auto& [name, value] : features) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

// The first `limit` elements, and the error after them as one more.
std::vector<std::string> run(const Dataset& dataset, int threads, size_t limit) {
  std::vector<std::string> elements;
  try {
    Pipeline pipeline = dataset.start({.threads = threads, .watchdog = 30});
    while (elements.size() < limit) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) break;
      elements.push_back(print_found(batch->block(), 0));
    }
  } catch (const ErrorException& e) {
    elements.push_back(fmt::format("error: {}", e.what()));
  }
  return elements;
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

std::string print_expected(const Json& element) {
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
  if (kind == "invalid_argument") return is("user_function") || is("wrong_shape") || is("out_of_range");
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

std::string stream_difference(const Json& definition, const Dataset& dataset, uint64_t jitter) {
  const Json& expected = definition.at("expect");
  const Json& error = definition.at("error");
  const size_t wanted = expected.size() + (error.is_null() ? 0 : 1);
  // One more than expected shows what should not be there.
  const std::vector<std::string> stream =
      run(dataset, 1 + static_cast<int>(jitter % 2), error.is_null() ? wanted + 1 : wanted);
  const std::string where = jitter == 0 ? "" : fmt::format(" (cut at random, seed {})", jitter);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text = print_expected(expected[i]);
    const std::string found = i < stream.size() ? stream[i] : "the end";
    if (found != text) return fmt::format("element {}: expected {}, found {}{}", i, text, found, where);
  }
  if (error.is_null()) {
    if (stream.size() > wanted) {
      return fmt::format("element {}: expected the end, found {}{}", wanted, stream[wanted], where);
    }
    return "";
  }
  const std::string kind = error.at("kind");
  const std::string found = stream.size() == wanted ? stream.back() : "the end";
  if (!matches(kind, found)) return fmt::format("expected error {}, found {}{}", kind, found, where);
  return "";
}

std::string difference_of(const Json& definition) {
  const Json& error = definition.at("error");
  const bool refused = !error.is_null() && error.at("at") == "build";
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::optional<Dataset> dataset;
    try {
      dataset = tfdata_pipeline(definition.at("pipeline"), seed);
    } catch (const ErrorException& e) {
      return refused ? "" : fmt::format("refused: {}", e.what());
    }
    if (refused) return "accepted; tf.data refuses to build it";
    std::string difference = stream_difference(definition, *dataset, seed);
    if (difference.empty()) {
      difference =
          cardinality_difference(definition.at("cardinality"), dataset->cardinality(), definition.at("expect").size());
    }
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace

std::vector<TfdataCase> read_tfdata_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<TfdataCase> cases;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      Json definition = Json::parse(line);
      for (const char* key : {"pipeline", "cardinality", "expect", "error"}) definition.at(key);
      std::string name = definition.at("name");
      cases.push_back({std::move(name), std::move(definition)});
    } catch (const Json::exception& e) {
      throw std::runtime_error(fmt::format("{}, line {}: {}", path, number, e.what()));
    }
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
  } catch (const Json::exception& malformed) {
    return {CaseResult::kFailed, fmt::format("not of the grammar: {}", malformed.what())};
  }
}

}  // namespace millrace::test
