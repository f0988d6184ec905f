#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

/// Which tokens of a tokenizer play which part, whatever they are called. All that are there are in its vocabulary.
struct SpecialTokens {
  std::optional<std::string> cls;   ///< in front of a text
  std::optional<std::string> sep;   ///< after it
  std::optional<std::string> mask;  ///< in the place of a token that is to be guessed
  std::optional<std::string> pad;
  std::optional<std::string> unk;
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::string path;                            ///< of the tokenizer's file
  std::map<std::string, std::string> missing;  ///< from `mask_token` to a sentence of what its file says

  /// Looks, for each, into `tokenizer_config.json` and then `special_tokens_map.json` beside `path`, the file that the
  /// tokenizer was read from (`cls_token` and so on, as Hugging Face transformers writes them); then, for `cls` and
  /// `sep`, at what the tokenizer itself puts around a text; then for the names that are usual: `[CLS]` or `<s>`,
  /// `[SEP]` or `</s>`, `[MASK]` or `<mask>`, `<pad>` or `[PAD]`, `<unk>` or `[UNK]`. Without a name of their own `bos`
  /// and `eos` are `cls` and `sep`. What a file says and the tokenizer does not have is in `missing` and nowhere else:
  /// files keep roles that a tokenizer has no use for. Throws `kIo` or `kParse` naming the file.
  [[nodiscard]] static SpecialTokens find(const Tokenizer& tokenizer, const std::string& path);

  /// The id of a role that is needed: `id_of(tokenizer, "mask_token")`. Throws `kInvalidArgument` that says which file
  /// names what for it, or that nothing says so.
  [[nodiscard]] int32_t id_of(const Tokenizer& tokenizer, std::string_view role) const;

  /// The ids of all of them, ascending, each once.
  std::vector<int32_t> ids(const Tokenizer& tokenizer) const;
};

}  // namespace millrace
