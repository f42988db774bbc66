/* Ranges of a C library, so many times. */
#include <nvtx3/nvToolsExt.h>

void annotate_with_texts(int count) {
    for (int i = 0; i < count; i++) {
        nvtxRangePushA("range");
        nvtxRangePop();
    }
}

void annotate_with_registered_string(int count) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("bench");
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "range");
    for (int i = 0; i < count; i++) {
        nvtxDomainRangePushEx(domain, &attributes);
        nvtxDomainRangePop(domain);
    }
}
