#include "examples/html/html_text.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
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

// What a browser shows of one element between two letters.
TEST(HtmlText, LaysElementsOutAsABrowser) {
  const std::vector<std::pair<const char*, const char*>> shown = {
      {"<table><tr><td>alpha</td><td>beta</td></tr></table>", "alpha beta"},
      {"<table><tr><th>alpha</th><th>beta</th></tr></table>", "alpha beta"},
      {"<select><option>one</option><option>two</option></select>", "one\ntwo"},
      {"<select><optgroup label=x><option>one</option></optgroup><option>two</select>", "one\ntwo"},
      {"a<button>b</button>c", "a b c"},
      {"a<textarea>b\n  b</textarea>c", "a b\n  b c"},
      {"a<input>b<img src=x>c", "a b c"},
      {"<menu><li>a</li></menu><dir>b</dir>c", "a\nb\nc"},
      {"<figure>a<figcaption>b</figcaption></figure>", "a\nb"},
      {"<fieldset><legend>a</legend>b</fieldset>", "a\nb"},
      {"<hgroup>a</hgroup>b", "a\nb"},
      {"<listing>a  b</listing><xmp><b>  c</xmp>", "a  b\n<b>  c"},
      {"<ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>c", "a b c"},
      {"a<b>b</b><span>c</span><code>d</code><sup>2</sup>", "abcd2"},
  };
  for (const auto& [html, text] : shown) EXPECT_EQ(html_to_text(html), text) << html;
}

TEST(HtmlText, LeavesOutWhatABrowserDoesNotShow) {
  EXPECT_EQ(html_to_text("<html><head><title>title</title><meta name=x></head><body>b</body></html>"), "b");
  EXPECT_EQ(html_to_text("<title>title</title>b"), "b");
  EXPECT_EQ(html_to_text("<p>a</p><title>title</title>b"), "a\nb");
  for (const char* const tag : {"applet", "audio", "canvas", "datalist", "iframe", "meter", "noembed", "noframes",
                                "noscript", "object", "progress", "script", "style", "template", "title", "video"}) {
    EXPECT_EQ(html_to_text(fmt::format("<p>a<{0}>no</{0}>b</p>", tag)), "ab") << tag;
  }
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
