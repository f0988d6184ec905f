#include "millrace/trainer/run/cross_validation.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

std::vector<int> folds_of(std::span<const std::string> group_of_row, int num_folds) {
  std::unordered_map<std::string_view, size_t> number_of;
  std::vector<std::vector<size_t>> groups;  // rows of each, in the order of appearance
  for (size_t row = 0; row < group_of_row.size(); ++row) {
    const auto [found, is_new] = number_of.try_emplace(group_of_row[row], groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(row);
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

std::string fold_folder(const std::string& out, int64_t fold) { return fmt::format("{}/fold-{}", out, fold); }

std::vector<std::string> best_models_of_folds(const std::string& out) {
  std::vector<std::string> models;
  const auto refuse = [](const std::string& what) { throw ErrorException(ErrorCode::kInvalidArgument, what); };
  for (int64_t fold = 0; std::filesystem::is_directory(fold_folder(out, fold)); ++fold) {
    const std::string folder = fold_folder(out, fold) + "/best";
    const std::vector<BestModel> best = best_models_in(folder);
    if (best.empty()) refuse(fmt::format("fold {} has no model in {}", fold, folder));
    models.push_back(best.front().path);
  }
  if (models.empty()) refuse(fmt::format("no models of folds: {} is not there", fold_folder(out, 0)));
  return models;
}

std::string to_text(const BinningGain& gain, std::span<const std::string> columns) {
  size_t width = 40;
  for (const std::string& column : columns) width = std::max(width, column.size());
  std::string text = "rank correlation by fold, and mean\n";
  const auto add = [&](std::string_view name, const std::vector<double>& figures, const std::string& end) {
    text += fmt::format("{:<{}} {:>7.4f}  {:>7.4f}{}\n", name, width, fmt::join(figures, " "), mean_of_defined(figures),
                        end);
  };
  for (size_t column = 0; column < columns.size(); ++column) {
    std::vector<double> figures;
    figures.reserve(gain.raw.size());
    for (const std::vector<double>& fold : gain.raw) figures.push_back(fold[column]);
    const int bins = gain.bins[column];
    add(columns[column], figures, bins == 0 ? "" : fmt::format("  in steps of 1/{}", bins));
  }
  const auto add_means = [&](std::string_view name, const std::vector<std::vector<double>>& folds) {
    std::vector<double> means;
    means.reserve(folds.size());
    for (const std::vector<double>& fold : folds) means.push_back(mean_of_defined(fold));
    add(name, means, "");
  };
  add_means("mean", gain.raw);
  add_means("mean in steps that other folds chose", gain.binned);
  return text;
}

}  // namespace millrace
