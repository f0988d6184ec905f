#include "tokenizer/decoders/metaspace.h"

namespace millrace {

std::string MetaspaceDecoder::decode(std::span<const std::string_view> tokens) const {
  const std::string& mark = options_.replacement;
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool drop = i == 0 && options_.prepend != MetaspaceOptions::Prepend::kNever;
    std::string_view rest = tokens[i];
    for (size_t at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
      text.append(rest.substr(0, at));
      if (!drop) text.push_back(' ');
      rest.remove_prefix(at + mark.size());
    }
    text.append(rest);
  }
  return text;
}

}  // namespace millrace
