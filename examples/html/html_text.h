#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// The text of a piece of HTML, as a browser would show it (gumbo): tags, comments and what is not shown (`<head>`,
/// `<script>`, `<iframe>`, …) are gone, entities are characters, and a line ends where a block (`<p>`, `<li>`,
/// `<option>`, …) begins or ends and at `<br>`; a space is beside a table's cell and a button. White space is one
/// space, but between `<pre>` and `</pre>` as it stands. Text outside of any tag stays.
///
///     html_to_text("<p>a &lt; b:</p>\n<pre><code>if (a&lt;b)\n  c();</code></pre>")   ->  "a < b:\nif (a<b)\n  c();"
///
/// Any thread. Throws `kParse` for more tags than a text has: they could lie in each other, and each level takes stack.
[[nodiscard]] std::string html_to_text(std::string_view html);

}  // namespace millrace
