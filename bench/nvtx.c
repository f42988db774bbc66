/* Ranges of a C library, so many times. */
#include <nvtx3/nvToolsExt.h>

void texts(int count) {
    for (int at = 0; at < count; at++) {
        nvtxRangePushA("range");
        nvtxRangePop();
    }
}

void registered_strings(int count) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("bench");
    nvtxEventAttributes_t range = {0};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = nvtxDomainRegisterStringA(domain, "range");
    for (int at = 0; at < count; at++) {
        nvtxDomainRangePushEx(domain, &range);
        nvtxDomainRangePop(domain);
    }
}
