#include "millrace/trainer/run/cross_validation.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/utf8.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {
namespace {

constexpr std::string_view kFold = "fold-";

// Numbers of those that have a folder.
std::vector<int64_t> folds_in(const std::string& out) {
  std::vector<int64_t> folds;
  std::error_code code;  // where there is no such folder there are no folds
  for (const std::string& name : names_in(out, code)) {
    int64_t fold = -1;
    if (!name.starts_with(kFold) || !std::filesystem::is_directory(std::filesystem::path(out) / name)) continue;
    std::from_chars(name.data() + kFold.size(), name.data() + name.size(), fold);
    if (name == fmt::format("{}{}", kFold, fold)) folds.push_back(fold);
  }
  return folds;
}

}  // namespace

std::vector<size_t> groups_of(std::span<const std::vector<std::string>> keys_of_row) {
  // Of each row an earlier one of its group, or itself; the first of the group is found from any.
  std::vector<size_t> earlier(keys_of_row.size());
  const auto first_of = [&](size_t row) {
    while (earlier[row] != row) row = earlier[row] = earlier[earlier[row]];
    return row;
  };
  std::unordered_map<std::string_view, size_t> row_with;
  for (size_t row = 0; row < keys_of_row.size(); ++row) {
    earlier[row] = row;
    for (const std::string& key : keys_of_row[row]) {
      const size_t mine = first_of(row);
      const size_t other = first_of(row_with.try_emplace(key, row).first->second);
      earlier[std::max(mine, other)] = std::min(mine, other);
    }
  }
  std::vector<size_t> groups(keys_of_row.size());
  size_t num_groups = 0;
  for (size_t row = 0; row < groups.size(); ++row) {
    groups[row] = earlier[row] == row ? num_groups++ : groups[first_of(row)];
  }
  return groups;
}

std::vector<int> folds_of(std::span<const size_t> group_of_row, int num_folds) {
  std::vector<std::vector<size_t>> groups;  // rows of each
  for (size_t row = 0; row < group_of_row.size(); ++row) {
    groups.resize(std::max(groups.size(), group_of_row[row] + 1));
    groups[group_of_row[row]].push_back(row);
  }
  if (std::ssize(groups) < num_folds) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} rows in {} groups cannot be cut into {} folds: a group is in one fold",
                                     group_of_row.size(), groups.size(), num_folds));
  }
  std::ranges::stable_sort(groups, std::greater(), &std::vector<size_t>::size);
  std::vector<int> folds(group_of_row.size());
  std::vector<size_t> sizes(static_cast<size_t>(num_folds));
  for (const std::vector<size_t>& group : groups) {
    const auto lightest = std::ranges::min_element(sizes);
    *lightest += group.size();
    for (const size_t row : group) folds[row] = static_cast<int>(lightest - sizes.begin());
  }
  return folds;
}

std::string fold_folder(const std::string& out, int64_t fold) { return fmt::format("{}/{}{}", out, kFold, fold); }

std::vector<int64_t> parse_folds(const std::string& option, std::span<const std::string> texts) {
  std::vector<int64_t> folds;
  folds.reserve(texts.size());
  for (const std::string& text : texts) {
    int64_t& fold = folds.emplace_back(-1);
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, fold).ptr == end && fold >= 0) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("--{} is '{}', must be the number of a fold", option, printable(excerpt(text))));
  }
  return folds;
}

std::vector<FoldModel> best_models_of_folds(const std::string& out, std::vector<int64_t> folds,
                                            std::string_view written_by) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
  };
  if (folds.empty()) folds = folds_in(out);
  require(!folds.empty(),
          fmt::format("no models of folds: {} is not there; {} writes it", fold_folder(out, 0), written_by));
  std::ranges::sort(folds);
  folds.erase(std::unique(folds.begin(), folds.end()), folds.end());
  std::vector<FoldModel> models;
  models.reserve(folds.size());
  for (const int64_t fold : folds) {
    const std::string folder = fold_folder(out, fold);
    require(
        std::filesystem::is_directory(folder),
        fmt::format("fold {0} has no run: {1} is not there; {2} with --fold {0} writes it", fold, folder, written_by));
    require(std::filesystem::is_directory(folder + "/model"),
            fmt::format(
                "the training of fold {0} has not ended: {1}/model is not there; go on with --fold {0} --resume last",
                fold, folder));
    const std::vector<BestModel> best = best_models_in(folder + "/best");
    require(!best.empty(),
            fmt::format("fold {} has no model in {}/best; --keep-best 1 of its training keeps one", fold, folder));
    models.push_back({.fold = fold, .folder = best.front().path});
  }
  return models;
}

namespace {

std::vector<double> means_of(const std::vector<std::vector<double>>& folds) {
  std::vector<double> means;
  means.reserve(folds.size());
  for (const std::vector<double>& fold : folds) means.push_back(mean_of_defined(fold));
  return means;
}

}  // namespace

std::string to_text(const BinningGain& gain, std::span<const std::string> columns, std::span<const int64_t> folds) {
  size_t width = 40;
  for (const std::string& column : columns) width = std::max(width, column.size());
  std::string text =
      fmt::format("{:<{}} {:>7}  {:>7}\n", "rank correlation of fold", width, fmt::join(folds, " "), "mean");
  const auto add = [&](std::string_view name, const std::vector<double>& figures, const std::string& end) {
    text += fmt::format("{:<{}} {:>7.4f}  {:>7.4f}{}\n", name, width, fmt::join(figures, " "), mean_of_defined(figures),
                        end);
  };
  for (size_t column = 0; column < columns.size(); ++column) {
    std::vector<double> figures;
    figures.reserve(gain.raw.size());
    for (const std::vector<double>& fold : gain.raw) figures.push_back(fold[column]);
    const int bins = gain.bins[column].k;
    add(printable(columns[column]), figures, bins == 0 ? "" : fmt::format("  in steps of 1/{}", bins));
  }
  add("mean", means_of(gain.raw), "");
  add("mean in steps that other folds chose", means_of(gain.binned), "");
  return text;
}

nlohmann::ordered_json to_json(const BinningGain& gain) {
  nlohmann::ordered_json bins = nlohmann::ordered_json::array();
  for (const auto& [k, least, largest] : gain.bins) bins.push_back({{"k", k}, {"least", least}, {"largest", largest}});
  const std::vector<double> raw = means_of(gain.raw);
  const std::vector<double> binned = means_of(gain.binned);
  return {{"spearman", gain.raw},
          {"binned_spearman", gain.binned},
          {"mean_spearman", raw},
          {"mean_binned_spearman", binned},
          {"mean_of_folds", {{"spearman", mean_of_defined(raw)}, {"binned_spearman", mean_of_defined(binned)}}},
          {"bins", bins}};
}

}  // namespace millrace
