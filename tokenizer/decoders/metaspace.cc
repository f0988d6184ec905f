#include "millrace/tokenizer/decoders/metaspace.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace millrace {

void MetaspaceDecoder::apply(std::vector<std::string>& pieces) const {
  const std::string& mark = options_.replacement;
  bool drop = options_.prepend != MetaspaceOptions::Prepend::kNever;
  for (std::string& piece : pieces) {
    std::string text;
    std::string_view rest = piece;
    for (size_t at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
      text.append(rest.substr(0, at));
      if (!drop) text.push_back(' ');
      rest.remove_prefix(at + mark.size());
    }
    text.append(rest);
    piece = std::move(text);
    drop = false;
  }
}

nlohmann::ordered_json MetaspaceDecoder::to_json() const { return options_.to_json(); }

}  // namespace millrace
