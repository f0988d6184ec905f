#include "examples/html/html_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::html_text_test {
namespace {

TEST(HtmlText, KeepsTextAndDecodesEntities) {
  EXPECT_EQ(html_to_text("<p>a <b>bold</b> <a href=\"x\">link</a> &lt;T&gt; &amp; &eacute;&#8364;&nbsp;!</p>"),
            "a bold link <T> & é€\u00a0!");
  EXPECT_EQ(html_to_text("no tags, a < b && b > c"), "no tags, a < b && b > c");
  EXPECT_EQ(html_to_text(""), "");
  EXPECT_EQ(html_to_text(" \n <p> </p>"), "");
}

TEST(HtmlText, EndsALineWhereABlockDoes) {
  EXPECT_EQ(html_to_text("before<p>one</p>\n\n<p>two<br/>three</p>after"), "before\none\ntwo\nthree\nafter");
  EXPECT_EQ(html_to_text("<ul>\n<li>first</li>\n<li>second</li></ul><h2>head</h2>rest"), "first\nsecond\nhead\nrest");
  EXPECT_EQ(html_to_text("<table><tr><td>a</td> <td>b</td></tr><tr><td>c</td></tr></table>"), "a b\nc");
}

TEST(HtmlText, KeepsCodeAsItStandsBetweenPre) {
  EXPECT_EQ(
      html_to_text(
          "<p>So  <code>x  =  1</code>:</p>\n<pre><code>if (a&lt;b)\n    c(&quot;d&quot;);\n\nend\n</code></pre>\n"
          "<p>done</p>"),
      "So x = 1:\nif (a<b)\n    c(\"d\");\n\nend\ndone");
}

TEST(HtmlText, LeavesOutWhatIsNoText) {
  EXPECT_EQ(html_to_text("a<!-- comment --><script>var x = 'no';</script><style>p {}</style><template>no</template>b"),
            "ab");
}

TEST(HtmlText, ReadsHtmlThatIsNotWellFormed) {
  EXPECT_EQ(html_to_text("<p>one<p>two <b>three</p>four</i>"), "one\ntwo three\nfour");
  EXPECT_EQ(html_to_text("a <unknown>b</unknown> <"), "a b <");
}

TEST(HtmlText, ReadsADeepPageAndRefusesOneThatIsDeeper) {
  const auto nested = [](int depth) {
    std::string html;
    for (int i = 0; i < depth; ++i) html += "<div>";
    return html + "text";
  };
  EXPECT_EQ(html_to_text(nested(10'000)), "text");
  EXPECT_THAT([&] { (void)html_to_text(nested(10'001)); },
              testing::ThrowsMessage<ErrorException>(testing::HasSubstr("more than 10000 tags")));
}

}  // namespace
}  // namespace millrace::html_text_test
