#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// `text` with `replacement` in the place of every occurrence of `pattern`, from left to right. An empty pattern is in
/// front of each character and at the end.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view replacement);

/// Takes the spaces out that decoded English has in front of `.`, `?`, `!`, `,`, `n't`, `'m`, `'s`, `'ve`, `'re` and
/// around `'`, and makes ` do not` ` don't`.
std::string without_spaces_of_tokens(std::string_view text);

}  // namespace millrace
