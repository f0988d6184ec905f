#include "millrace/tokenizer/models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/models/bpe.h"
#include "millrace/tokenizer/models/unigram.h"
#include "millrace/tokenizer/models/word_level.h"
#include "millrace/tokenizer/models/word_piece.h"

namespace millrace {
namespace {

// Files of the Python package before 0.9 (roberta-base, gpt2, t5-small and bert-base-uncased as they were published)
// name the type of every component but the model, which is told by its members.
std::string type_of(const JsonNode& node) {
  if (node.value().is_object() && !node.value().contains("type")) {
    if (node.find("merges")) return "BPE";
    const auto vocabulary = node.find("vocab");
    if (vocabulary && vocabulary->value().is_array()) return "Unigram";
    if (node.find("continuing_subword_prefix")) return "WordPiece";
    if (node.find("unk_token")) return "WordLevel";
    node.fail("'type' is missing, and its members are those of no model");
  }
  return node.member("type").string();
}

}  // namespace

std::unique_ptr<const TokenModel> read_model(const JsonNode& node) {
  const std::string type = type_of(node);
  if (type == "Unigram") return std::make_unique<UnigramModel>(node);
  if (type == "BPE") return std::make_unique<BpeModel>(node);
  if (type == "WordPiece") return std::make_unique<WordPieceModel>(node);
  if (type == "WordLevel") return std::make_unique<WordLevelModel>(node);
  node.member("type").fail(
      fmt::format("no model '{}'; there are BPE, Unigram, WordLevel and WordPiece", excerpt(type)));
}

}  // namespace millrace
