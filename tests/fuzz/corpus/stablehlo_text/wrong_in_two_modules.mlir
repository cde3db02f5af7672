module { func.func @b() { return } func.func @b() { return } }
module { func.func @b() { return } func.func @b() { return } }