// Compares operators, models, optimizers and schedules with figures of other implementations: model_golden_test --dir
// DIR, where DIR has the layout of tests/data/trainer, or is the folder of one of its models. Prints what differs, a
// line for each group of checks with the largest difference, and how many checks there were.
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/mlm/mask_filler.h"
#include "tests/trainer/golden/directory.h"
#include "tests/trainer/golden/json_file.h"

namespace {

namespace fs = std::filesystem;
using millrace::MaskCandidate;
using millrace::test::GoldenGroup;
using millrace::test::GoldenReport;
using Json = nlohmann::json;

void check_candidates(const std::string& label, const std::vector<MaskCandidate>& found, const Json& expected,
                      GoldenReport& report) {
  report.expect(label, found.size() == expected.size(), "another number of candidates");
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const Json& best = expected.at(i);
    const std::string place = fmt::format("{}, candidate {}", label, i);
    report.compare(place + " score", {found[i].score}, {best.at("score").get<double>()}, 1e-4, 1e-7);
    const bool same = found[i].token == best.at("token") && found[i].token_str == best.at("token_str") &&
                      found[i].sequence == best.at("sequence");
    report.expect(place, same,
                  fmt::format("token {} '{}' in '{}', expected {}", found[i].token, found[i].token_str,
                              found[i].sequence, best.dump()));
  }
}

// fill_mask.json of a model's folder: texts, their ids, and the best candidates; a list for each mask where there are
// several.
void check_fill_mask(const fs::path& folder, GoldenReport& report) {
  const std::string name = folder.filename().string() + " fill_mask";
  report.begin_group(name);
  report.guard(name, [&] {
    millrace::MaskFiller filler(folder.string());
    for (const Json& text : millrace::test::read_json((folder / "fill_mask.json").string())) {
      const std::string label = fmt::format("{} '{}'", name, text.at("text").get<std::string>());
      const Json& expected = text.at("top5");
      const bool several = expected.at(0).is_array();
      const size_t candidates = several ? expected.at(0).size() : expected.size();
      const millrace::FilledText filled =
          filler.fill(text.at("text").get<std::string>(), static_cast<int64_t>(candidates));
      report.expect(label + " ids", filled.ids == text.at("input_ids").get<std::vector<int32_t>>(), "other ids");
      const size_t masks = several ? expected.size() : 1;
      report.expect(label + " masks", filled.masks.size() == masks, fmt::format("{} masks", filled.masks.size()));
      for (size_t mask = 0; mask < std::min(masks, filled.masks.size()); ++mask) {
        check_candidates(fmt::format("{} mask {}", label, mask), filled.masks[mask],
                         several ? expected.at(mask) : expected, report);
      }
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--dir") {
    std::fprintf(stderr, "usage: model_golden_test --dir DIR\n");
    return 2;
  }
  try {
    GoldenReport report;
    millrace::test::check_golden_directory(argv[2], report);
    const fs::path directory = fs::canonical(argv[2]);
    if (fs::exists(directory / "fill_mask.json")) check_fill_mask(directory, report);
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (fs::exists(entry.path() / "fill_mask.json")) check_fill_mask(entry.path(), report);
    }
    for (const std::string& failure : report.failures()) std::printf("%s\n", failure.c_str());
    for (const GoldenGroup& group : report.groups()) std::printf("%s\n", group.line().c_str());
    std::printf("%zu passed, %zu failed\n", report.passed(), report.failures().size());
    return report.failures().empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_golden_test: %s\n", error.what());
    return 1;
  }
}
