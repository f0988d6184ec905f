#include "millrace/formats/storage/remote/s3_error.h"

#include <pugixml.hpp>

namespace millrace {

bool has_s3_error(std::string_view body) {
  constexpr size_t kBeginning = 512;  // an XML declaration is before it
  return body.substr(0, kBeginning).find("<Error>") != std::string_view::npos;
}

S3Error parse_s3_error(const HttpResponse& response) {
  S3Error error;
  const auto field = [&](const char* name) {
    const std::string* const value = response.head.headers.find(name);
    return value == nullptr ? std::string() : *value;
  };
  error.request_id = field("x-amz-request-id");
  error.region = field("x-amz-bucket-region");
  pugi::xml_document document;
  if (!document.load_buffer(response.body.data(), response.body.size())) return error;
  const pugi::xml_node node = document.child("Error");
  error.code = node.child_value("Code");
  error.message = node.child_value("Message");
  if (error.request_id.empty()) error.request_id = node.child_value("RequestId");
  if (error.region.empty()) error.region = node.child_value("Region");
  return error;
}

}  // namespace millrace
