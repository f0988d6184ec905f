#include "millrace/tokenizer/models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/tokenizer/models/bpe.h"
#include "millrace/tokenizer/models/unigram.h"

namespace millrace {
namespace {

// Files of the Python package before 0.9 (roberta-base, gpt2 and t5-small as they were published) name the type of
// every component but the model, which is told by its members.
std::string type_of(const JsonNode& node) {
  if (node.value().is_object() && !node.value().contains("type")) {
    if (node.find("merges")) return "BPE";
    const auto vocabulary = node.find("vocab");
    if (vocabulary && vocabulary->value().is_array()) return "Unigram";
    node.fail("'type' is missing, and its members are neither those of a BPE nor of a Unigram");
  }
  return node.member("type").string();
}

}  // namespace

std::unique_ptr<const TokenModel> read_model(const JsonNode& node) {
  const std::string type = type_of(node);
  if (type == "Unigram") return std::make_unique<UnigramModel>(node);
  if (type == "BPE") return std::make_unique<BpeModel>(node);
  node.member("type").fail(fmt::format("no model '{}'; there are BPE and Unigram", type));
}

}  // namespace millrace
