#include "tests/fuzz/definition_fuzz.h"

#include <optional>
#include <string>

#include "millrace/pipeline/definition/pipeline_def.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

template <typename Make>
auto made(Make make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kInvalidArgument});
    return std::nullopt;
  }
}

// Steps that look at files of any name, or write some.
bool names_files(const std::string& text) {
  for (const char* step : {"shards {", "load {", "cache {", "snapshot {"}) {
    if (text.find(step) != std::string::npos) return true;
  }
  return false;
}

void check(const std::optional<PipelineDef>& def) {
  if (!def) return;
  const std::string text = def->to_text();
  require(PipelineDef::from_text(text).to_text() == text);
  const std::optional<std::string> json = made([&] { return def->to_json(); });
  // It refuses a negative zero.
  require(json ? PipelineDef::from_json(*json).to_text() == text : text.find("-0") != std::string::npos);
  if (names_files(text)) return;
  const std::optional<Dataset> dataset = made([&] { return def->dataset(); });
  if (!dataset) return;
  const std::string whole = PipelineDef::of(*dataset).to_text();
  require(PipelineDef::of(PipelineDef::from_text(whole).dataset()).to_text() == whole);
}

}  // namespace

void fuzz_definition_text(std::string_view bytes) {
  check(made([&] { return PipelineDef::from_text(bytes); }));
}

void fuzz_definition_json(std::string_view bytes) {
  check(made([&] { return PipelineDef::from_json(bytes); }));
}

}  // namespace millrace::test
