//! Shared libraries that may be there or not.

use std::ffi::{CString, c_void};

/// A loaded library; it stays loaded.
#[derive(Debug, Clone, Copy)]
pub struct Library(*mut c_void);

impl Library {
    /// Loads it by its soname; `None` if it is not there.
    pub fn open(soname: &str) -> Option<Self> {
        let name = CString::new(soname).expect("no zero inside");
        // SAFETY: a terminated name; the libraries' initialisers are trusted as those of any
        // program that links them.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// A function of it.
    ///
    /// # Safety
    /// `F` must be that function's type, as its header declares it.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a function pointer");
        let name = CString::new(name).expect("no zero inside");
        // SAFETY: an open library and a terminated name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        // SAFETY: of the same size, and of this type by the caller's promise.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}
