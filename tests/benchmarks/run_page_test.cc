#include "benchmarks/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace millrace::run_page_test {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunPage, HoldsTheResultAndNeedsNothingElse) {
  BenchResult result;
  result.options.workload = "</script><b>\"x\" & @RESULT@ \xff";
  result.records = 1;
  result.wall_seconds = 1;
  result.statistics.stages = {{.name = "0:<read>"}};
  const std::string page = to_html(result);
  const std::string begin = "<script type=\"application/json\" id=\"result\">";
  const size_t at = page.find(begin);
  ASSERT_NE(at, std::string::npos);
  const std::string json = page.substr(at + begin.size(), page.find("</script>", at) - at - begin.size());
  EXPECT_THAT(json, Not(HasSubstr("<")));
  const ordered_json read = ordered_json::parse(json);
  EXPECT_EQ(read["workload"], "</script><b>\"x\" & @RESULT@ \xef\xbf\xbd");
  EXPECT_EQ(read["stages"][0]["name"], "0:<read>");
  // Text reaches the page as text only, and nothing comes from elsewhere.
  for (const char* other : {"innerHTML", "document.write", "insertAdjacent", " src=", "@import", "url(", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(other))) << other;
  }
  EXPECT_THAT(page, Not(HasSubstr("href=")));
}

}  // namespace
}  // namespace millrace::run_page_test
