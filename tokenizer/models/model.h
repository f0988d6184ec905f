#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

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
  /// Appends the tokens of a word, which is not empty, in its order.
  virtual void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const = 0;
  /// What the encoding of `word` shows for one of its tokens. Valid as long as the word and the model.
  virtual std::string_view text_of(const ModelToken& token, std::string_view word) const = 0;
  virtual int32_t size() const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// `id` is in [0, size()).
  virtual std::string_view token_of(int32_t id) const = 0;
  /// What `read_model` reads.
  virtual nlohmann::ordered_json to_json() const = 0;
};

/// The model that `node` describes, by its `type` or, in files from before there were types, by its members. Throws
/// `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const TokenModel> read_model(const JsonNode& node);

}  // namespace millrace
