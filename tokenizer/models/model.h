#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"

namespace millrace {

/// A token of a word: bytes [begin, end) of the word.
struct ModelToken {
  int32_t id = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Encodes words with a vocabulary of subwords. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_model`.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a word, which is not empty; together they cover it.
  virtual void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const = 0;
  virtual int32_t size() const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// `id` is in [0, size()).
  virtual std::string_view token_of(int32_t id) const = 0;
};

/// The model that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const TokenModel> read_model(const JsonNode& node);

}  // namespace millrace
