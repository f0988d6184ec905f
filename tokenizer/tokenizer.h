#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/token_encoding.h"
#include "millrace/tokenizer/token_padding.h"
#include "millrace/tokenizer/token_truncation.h"

namespace millrace {

/// A tokenizer as a Hugging Face `tokenizer.json` describes it. Ids, texts, offsets and decoded text are those of the
/// Python package `tokenizers`; docs/tokenizers.md lists the components. Immutable and cheap to copy; any number of
/// threads may use one. A thread that encodes keeps the tokens of the words that it met last (512 KiB for all
/// tokenizers).
///
///     const Tokenizer tokenizer = Tokenizer::load("model/tokenizer.json");
///     const TokenEncoding encoding = tokenizer.encode("A mill race drives the wheel.");
///     const std::string text = tokenizer.decode(encoding.ids);
class Tokenizer {
 public:
  /// Reads a `tokenizer.json`. Throws `kIo` when the file cannot be read, `kParse` naming the file and the place in it
  /// (`pre_tokenizer.type`) when it is damaged or holds a component or an option that we do not have.
  [[nodiscard]] static Tokenizer load(const std::string& path);
  /// The same from the text of such a file; `name` stands for the file in messages.
  [[nodiscard]] static Tokenizer from_json(const std::string& json_text, const std::string& name = "tokenizer.json");

  /// The text of a `tokenizer.json` that describes this, as the Python package lays it out.
  std::string to_json() const;
  /// Writes `to_json` to a file, which has its name only when it is whole. Throws `kIo`.
  void save(const std::string& path) const;

  /// How encodings are cut and padded; none unless the file says so.
  const std::optional<TokenTruncation>& truncation() const;
  const std::optional<TokenPadding>& padding() const;
  /// The same tokenizer with another way to do so, or with none.
  [[nodiscard]] Tokenizer with_truncation(std::optional<TokenTruncation> truncation) const;
  [[nodiscard]] Tokenizer with_padding(std::optional<TokenPadding> padding) const;

  /// Tokens in the vocabulary, added tokens included: ids are below this.
  int32_t size() const;
  /// The id of a token, or nothing when the vocabulary has no such token.
  std::optional<int32_t> id_of(std::string_view token) const;
  /// The token with this id, valid as long as any copy of the tokenizer. Throws `kInvalidArgument` when there is none.
  std::string_view token_of(int32_t id) const;

  /// Encodes a text of UTF-8, by default with the special tokens of the template for one text. Throws
  /// `kParse` with the offset of the first byte that is not UTF-8, `kInvalidArgument` for texts of 256 MiB and more,
  /// for an unknown character that no unknown token can stand for (a BPE model that names none leaves it out), and when
  /// truncation cannot make the text fit.
  TokenEncoding encode(std::string_view text, bool add_special_tokens = true) const;
  /// Encodes two texts with the template for a pair. Offsets count from the beginning of the token's own text.
  TokenEncoding encode_pair(std::string_view text, std::string_view pair, bool add_special_tokens = true) const;
  /// Appends the ids of `encode` to `out`, several times as fast; allocates nothing once `out` and the calling thread's
  /// work space have grown to the size of the texts.
  void encode_ids(std::string_view text, bool add_special_tokens, std::vector<int32_t>& out) const;

  /// The text of tokens. As in Python, ids outside the vocabulary are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace millrace
