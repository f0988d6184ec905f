#include "millrace/tokenizer/decoders/text_replacement.h"

#include <utility>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

// In the order in which they are replaced: one sees what those before it left.
constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

}  // namespace

std::string replace_all(std::string_view text, std::string_view pattern, std::string_view replacement) {
  std::string replaced;
  size_t copied = 0;
  for (size_t at = text.find(pattern); at <= text.size(); at = text.find(pattern, at)) {
    replaced.append(text.substr(copied, at - copied)).append(replacement);
    copied = at + pattern.size();
    at = pattern.empty() ? at + (at < text.size() ? character_size(text[at]) : 1) : copied;
  }
  return replaced.append(text.substr(copied));
}

std::string without_spaces_of_tokens(std::string_view text) {
  std::string cleaned(text);
  if (cleaned.find(' ') == std::string::npos) return cleaned;
  for (const auto& [pattern, replacement] : kCleanups) cleaned = replace_all(cleaned, pattern, replacement);
  return cleaned;
}

}  // namespace millrace
