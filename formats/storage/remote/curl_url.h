#pragma once

#include <curl/curl.h>

namespace millrace {

/// Of URLs that libcurl has taken apart, and of the texts that it gives of them.
struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(char* text) const { curl_free(text); }
};

}  // namespace millrace
