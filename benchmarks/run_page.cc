#include "benchmarks/run_page.h"

#include <string_view>

#include <nlohmann/json.hpp>

namespace millrace {

extern const std::string_view kRunPage;  // made of page/run_page.html by CMake

std::string to_html(const BenchResult& result) {
  constexpr std::string_view kPlace = "@RESULT@";
  std::string json;
  // Inside a script element only `<` could end it.
  for (const char c : to_json(result).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      json += "\\u003c";
    } else {
      json += c;
    }
  }
  std::string page(kRunPage);
  return page.replace(page.find(kPlace), kPlace.size(), json);
}

}  // namespace millrace
